//! The resources and the waiting time of runs, as `history` and `show` print them.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use serde_json::{Value, json};

use crate::cli::Bench;

fn numbers(of: &Value) -> [&Value; 5] {
    ["user_ms", "system_ms", "peak_memory_bytes", "read_bytes", "written_bytes"]
        .map(|field| &of[field])
}

#[test]
fn history_and_show_print_the_resources_of_a_run() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--", "x"]);
    let id = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    let claim = bench.node.claim("a");
    let used = [("exit_code", "0"), ("use", "1500000 250000 2048 4096 8192"), ("took_ms", "9")];
    bench.node.finish(&claim, RunState::Succeeded, &used);
    let wanted = json!([1_500, 250, 2_097_152, 4_096, 8_192]);
    let wanted: Vec<&Value> = wanted.as_array().unwrap().iter().collect();
    let history = bench.ctl.run(&["history", "a", "--json"]).good().json();
    assert_eq!(numbers(&history[0])[..], wanted[..]);
    assert!(history[0]["waited_ms"].is_u64(), "{history}");
    let run = bench.ctl.run(&["show", &id, "--json"]).good().json();
    assert_eq!(numbers(&run["attempts"][0])[..], wanted[..]);
    let text = bench.ctl.run(&["show", &id]).good().stdout;
    let line = "1s user time, 250ms system time, 2MiB peak memory, 4KiB read, 8KiB written";
    assert!(text.contains(line) && text.contains("from ready to start"), "{text}");
    let narrow = bench.ctl.run(&["history", "a"]).good().stdout;
    assert!(!narrow.contains("MEMORY"), "{narrow}");
    let wide = bench.ctl.run(&["history", "a", "--wide"]).good().stdout;
    for word in ["WAITED", "USER", "SYSTEM", "MEMORY", "READ", "WRITTEN", "2MiB", "8KiB"] {
        assert!(wide.contains(word), "{word}: {wide}");
    }
    let job = bench.ctl.run(&["show", "a", "--json"]).good().json();
    assert_eq!(job["sampled_runs"], 1);
    assert_eq!(job["cpu_ms"], json!({"p50": 1_750, "p95": 1_750}));
    assert_eq!(job["peak_memory_bytes"]["p95"], 2_097_152);
    assert!(job["took_ms"]["p50"].is_u64() && job["waited_ms"]["p95"].is_u64(), "{job}");
    let text = bench.ctl.run(&["show", "a"]).good().stdout;
    assert!(text.contains("p50 2MiB, p95 2MiB of the last run"), "{text}");
}

#[test]
fn resources_are_unknown_for_a_run_that_reported_none() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--", "x"]);
    bench.ctl.run(&["run", "a"]).good();
    let text = bench.ctl.run(&["show", "a"]).good().stdout;
    assert!(!text.contains("p95"), "{text}");
    let claim = bench.node.claim("a");
    bench.node.finish(&claim, RunState::Failed, &[("http_status", "500"), ("use", "")]);
    let history = bench.ctl.run(&["history", "a", "--json"]).good().json();
    assert!(numbers(&history[0]).iter().all(|number| number.is_null()), "{history}");
    let job = bench.ctl.run(&["show", "a", "--json"]).good().json();
    assert_eq!(job["cpu_ms"], json!({"p50": null, "p95": null}));
    assert!(job["took_ms"]["p50"].is_u64(), "{job}");
}

#[test]
fn an_earlier_attempt_does_not_lend_its_resources_to_a_later_one() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--retry", "1", "--", "x"]);
    let id = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    let claim = bench.node.claim("a");
    bench.node.retry(&claim, Duration::ZERO, 1);
    let mut set = redis::cmd("HSET");
    set.arg(format!("schedd:run:{id}")).arg("use").arg("1000 1000 1 0 0");
    set.exec(&mut bench.redis.connection()).unwrap();
    let again = bench.node.claim("a");
    let running = bench.ctl.run(&["show", &id, "--json"]).good().json();
    assert!(running["user_ms"].is_null(), "{running}");
    bench.node.finish(&again, RunState::Succeeded, &[("use", "")]);
    let ended = bench.ctl.run(&["show", &id, "--json"]).good().json();
    assert!(ended["user_ms"].is_null(), "{ended}");
}
