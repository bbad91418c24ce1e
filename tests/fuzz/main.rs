//! One fuzzer for every parser: `FUZZ_TARGET` names the row of the table in `targets.rs`, and the seeds of it are written to the
//! directory `FUZZ_CORPUS`. Started by `script/fuzz`.
#![no_main]

mod targets;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;

/// The target this process was started for.
static JUDGE: OnceLock<fn(&str)> = OnceLock::new();
/// The longest time one text took up to now.
static LONGEST: Mutex<Duration> = Mutex::new(Duration::ZERO);

fn begin() {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let Some((name, judge)) = targets::TARGETS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = targets::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("FUZZ_TARGET is {name:?}, wanted one of {}", known.join(", "));
        std::process::exit(2);
    };
    JUDGE.get_or_init(|| *judge);
    targets::MOST_MILLIS.store(50, Ordering::Relaxed);
    if let Ok(corpus) = std::env::var("FUZZ_CORPUS") {
        let seeds = targets::seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), name);
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(Path::new(&corpus).join(format!("seed-{number}")), seed).expect("the corpus can be written");
        }
    }
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let (Some(judge), Ok(text)) = (JUDGE.get(), std::str::from_utf8(bytes)) {
        judge(text);
        let (took, text) = targets::slowest();
        let mut longest = LONGEST.lock().expect("one thread");
        if took > *longest {
            *longest = took;
            eprintln!("slowest: {} us: {text:?}", took.as_micros());
        }
    }
});
