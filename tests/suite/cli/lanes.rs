//! Lanes on the command line: priority and labels given, told apart, refused.

use serde_json::{Value, json};

use super::Bench;

#[test]
fn priority_and_labels_are_reported_apart_from_the_queue() {
    let bench = Bench::start();
    bench.add(&[
        "--name",
        "a",
        "--priority",
        "-3",
        "--requires",
        "gpu,eu",
        "--in",
        "1h",
        "--",
        "x",
    ]);
    bench.add(&["--name", "b", "--in", "2h", "--", "x"]);
    let fields = |of: &Value| json!([of["queue"], of["priority"], of["requires"]]);
    let list = bench.ctl.run(&["list", "--queue", "default", "--json"]).good().json();
    assert_eq!(fields(&list[0]), json!(["default", -3, ["eu", "gpu"]]));
    assert_eq!(fields(&list[1]), json!(["default", 0, []]));
    let shown = bench.ctl.run(&["show", "a"]).good().stdout;
    assert!(shown.contains("default, priority -3, requires eu, gpu"), "{shown}");

    let due = bench.ctl.run(&["show", "a", "--json"]).good().json()["next_due"]
        .as_str()
        .unwrap()
        .to_owned();
    bench.ctl.run(&["run", "a"]).good();
    bench.ctl.run(&["cancel", "a"]).good();
    let history = bench.ctl.run(&["history", "a", "--json"]).good().json();
    assert_eq!(fields(&history[0]), json!(["default", -3, ["eu", "gpu"]]), "due {due}: {history}");
}

#[test]
fn what_is_no_priority_or_label_is_refused() {
    let bench = Bench::start();
    let add = |flags: &[&str]| {
        bench.ctl.run(&[&["add", "--name", "a"], flags, &["--in", "1h", "--", "x"]].concat())
    };
    add(&["--priority", "11"]).refused(2, &["priority", "-10 to 10"]);
    add(&["--requires", "GPU"]).refused(2, &["requires", "GPU"]);
    add(&["--requires", "a,a"]).refused(2, &["requires", "each label once"]);
}
