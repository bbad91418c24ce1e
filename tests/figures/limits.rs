//! How long the slowest texts take: of each parser every seed of `tests/fuzz/corpus`, among them the worst the fuzzer found,
//! is read or refused and its next time computed, and the longest single step of that is printed.

use std::path::Path;

#[path = "../fuzz/targets.rs"]
mod targets;

pub(crate) fn limits() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    println!("{:<18}{:>16}", "slowest step", "microseconds");
    for (name, judge) in targets::TARGETS {
        let seeds = targets::seeds(&corpus, name);
        // Zone data is read the first time.
        for seed in &seeds {
            judge(seed);
        }
        targets::slowest();
        for seed in &seeds {
            judge(seed);
        }
        let (took, text) = targets::slowest();
        let shown: String = text.chars().take(70).collect();
        println!("{name:<18}{:>16}   {shown:?}", took.as_micros());
    }
}
