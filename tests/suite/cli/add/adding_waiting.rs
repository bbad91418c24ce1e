//! `add --wait`: the end of the planned run.

use std::process::Stdio;

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;
use crate::support::wait::{LONG, until};

#[test]
fn an_add_that_waits_ends_as_the_planned_run_did() {
    let bench = Bench::start();
    bench.node.beat("");
    for (json, code) in [(&[][..], 3), (&["--json"], 4)] {
        let name = format!("work{code}");
        let args = ["add", "--name", &name, "--in", "0s", "--wait", "--", "true"];
        let mut command = bench.ctl.command(&[&args[..6], json, &args[6..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let claim = bench.node.claim(&name);
        bench.node.finish(&claim, RunState::Failed, &[("exit_code", &code.to_string())]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        if json.is_empty() {
            assert_eq!(stdout, format!("{name}\n"));
        } else {
            let run: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!((&run["job"], &run["exit_code"]), (&name.into(), &code.into()));
        }
    }
    let add = |args: &[&str]| bench.ctl.run(&[&["add", "--wait"], args, &["--", "true"]].concat());
    add(&[]).refused(2, &["--wait: found no time", "--in 0s"]);
    add(&["--in", "0s", "--wait-timeout", "soon"]).refused(2, &["--wait-timeout", "soon"]);
    let late = add(&["--name", "far", "--in", "1h", "--wait-timeout", "300ms"]);
    assert_eq!(late.code, 124, "{late:?}");
    assert!(
        late.stderr.contains(" has not begun within ") && late.stderr.contains("; it is due at ")
    );
    let unnamed = add(&["--in", "1h", "--wait-timeout", "300ms", "--json"]);
    let error = unnamed.stderr.lines().find(|line| line.starts_with("{\"error\"")).unwrap();
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    let (job, run) = (error["job"].as_str().unwrap(), error["run_id"].as_str().unwrap());
    assert!(job.starts_with("job-") && run.starts_with(&format!("{job}@")), "{unnamed:?}");
    assert!(error["error"].as_str().unwrap().contains("; it is due at "), "{unnamed:?}");
    bench.ctl.run(&["show", "far"]).good();

    // Another add moves the job: the awaited run is no failure, but it is not planned any more.
    let moved = ["add", "--name", "moved", "--replace", "--in", "1h", "--shell", "x"];
    let mut command = bench.ctl.command(&[&moved[..], &["--wait"]].concat());
    let waiter = command.stderr(Stdio::piped()).spawn().unwrap();
    until("the job is there", LONG, || {
        Some(()).filter(|()| bench.ctl.run(&["show", "moved"]).code == 0)
    });
    bench.ctl.run(&moved).good();
    let ended = waiter.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("job moved was changed, and its run is now moved@"), "{said}");
}
