//! `queue` and `queues`: what holds for queues by hand, and how they stand.

use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

fn queues(ctl: &Schedctl) -> Vec<Value> {
    let found = ctl.run(&["queues", "--json"]);
    assert_eq!(found.code, 0, "{found:?}");
    serde_json::from_str::<Vec<Value>>(&found.stdout).unwrap()
}

fn queue(ctl: &Schedctl, name: &str) -> Value {
    queues(ctl).into_iter().find(|queue| queue["name"] == name).unwrap_or(Value::Null)
}

#[test]
fn bad_input_changes_nothing_and_says_what_is_wanted() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).jobs("[queues.mail]\nlimit = 5\n").start();
    until("the queue is known", LONG, || Some(()).filter(|()| queue(&ctl, "mail")["limit"] == 5));
    for (words, code, wanted) in [
        (
            &["queue", "set", "mail", "rate=0/1m"][..],
            2,
            "rate: rate \"0/1m\" has no number from 1 to 1000000 before the /",
        ),
        (&["queue", "set", "mail", "limt=3"], 2, "limt: unknown key, did you mean \"limit\"?"),
        (&["queue", "set", "mail", "limit"], 2, "has no =, wanted KEY=VALUE such as limit=5"),
        (
            &["queue", "set", "mail", "limit=0"],
            2,
            "limit: found 0, wanted a whole number from 1 to 1000000",
        ),
        (&["queue", "set", "mail", "rate=100"], 2, "rate: rate \"100\" has no /"),
        (&["queue", "set", "mail", "burst=3"], 2, "burst: burst has no effect without a rate"),
        (
            &["queue", "set", "mial", "limit=3"],
            3,
            "no queue mial in namespace schedd: did you mean mail?",
        ),
        (
            &["queue", "pause", "zebra"],
            3,
            "no queue zebra in namespace schedd: schedctl queues lists the queues",
        ),
        (&["queue", "pause", "No Such"], 2, "queue name \"No Such\" is not valid"),
    ] {
        let found = ctl.run(words);
        assert_eq!(found.code, code, "{words:?}: {found:?}");
        assert!(found.stderr.contains(wanted), "{words:?}: {found:?}");
    }
    let record =
        eye.ask(eye.store().read_queue_settings(&["mail".parse().unwrap()])).unwrap().remove(0);
    assert_eq!((record.settings.limit, record.set), (Some(5), None));
}

#[test]
fn queues_shows_what_holds_how_full_it_is_and_how_long_runs_take() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script)
        .jobs("[queues.mail]\nlimit = 1\nrate = \"100/1m\"\nburst = 7\nconcurrency = 4\n")
        .start();
    until("the queue is known", LONG, || Some(()).filter(|()| queue(&ctl, "mail")["nodes"] == 1));
    eye.add(&json!({"name": "done", "in": "0s", "queue": "mail", "shell": "true"}));
    eye.wait_for_history("done", 1);
    for number in 0..3 {
        eye.add(&json!({"name": format!("m{number}"), "in": "0s", "queue": "mail", "shell": "sleep 600"}));
    }
    eye.add(&json!({"name": "later", "in": "1h", "queue": "mail", "shell": "true"}));
    let mail = until("it is full", LONG, || {
        Some(queue(&ctl, "mail")).filter(|mail| mail["state"] == "full")
    });
    for (key, wanted) in [
        ("depth", json!(2)),
        ("scheduled", json!(1)),
        ("running", json!(1)),
        ("limit", json!(1)),
        ("concurrency", json!(4)),
        ("capacity", json!(1)),
        ("utilisation", json!(1.0)),
        ("rate", json!("100/1m")),
        ("burst", json!(7)),
        ("weight", json!(1)),
        ("strict", json!(false)),
        ("paused", json!(false)),
        ("paused_by", Value::Null),
        ("sampled_runs", json!(1)),
    ] {
        assert_eq!(mail[key], wanted, "{key}: {mail}");
    }
    assert!(
        mail["oldest_age_ms"].is_i64()
            && mail["run_ms"]["p50"].is_u64()
            && mail["wait_ms"]["p95"].is_u64(),
        "{mail}"
    );
    let table = ctl.run(&["queues"]).stdout;
    let line = table.lines().find(|line| line.starts_with("mail")).unwrap();
    assert!(
        line.contains("full") && line.contains("100%") && line.contains("100/1m burst 7"),
        "{table}"
    );
    // Every field is there for a queue that nobody declared, too.
    let default = queue(&ctl, "default");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&default), keys(&mail));
    assert_eq!((&default["state"], &default["limit"]), (&json!("open"), &Value::Null));
}

#[test]
fn a_paused_queue_starts_nothing_until_it_is_resumed_and_explain_says_so() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").jobs("[queues.mail]\n").start();
    until("the queue is known", LONG, || Some(()).filter(|()| queue(&ctl, "mail")["nodes"] == 1));
    let paused = ctl.run(&["queue", "pause", "mail"]);
    assert_eq!((paused.code, paused.stdout.as_str()), (0, "queue mail paused\n"));
    assert_eq!(ctl.run(&["queue", "pause", "mail"]).stdout, "queue mail was already paused\n");
    eye.add(&json!({"name": "held", "in": "0s", "queue": "mail", "shell": "true"}));
    eye.add(&json!({"name": "free", "in": "0s", "shell": "true"}));
    eye.wait_for_history("free", 1);
    let why = until("explain says so", LONG, || {
        Some(ctl.run(&["explain", "held"]).stdout)
            .filter(|text| text.contains("Queue mail was paused by "))
    });
    assert!(
        why.contains("Node n1 found queue mail paused by ") && eye.history("held").is_empty(),
        "{why}"
    );
    assert_eq!(queue(&ctl, "mail")["state"], "paused");
    let resumed = ctl.run(&["queue", "resume", "mail", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&resumed.stdout).unwrap(),
        json!([{"queue": "mail", "result": "resumed"}])
    );
    eye.wait_for_history("held", 1);
    assert_eq!(ctl.run(&["queue", "resume", "mail"]).stdout, "queue mail was not paused\n");
}

#[test]
fn what_is_set_by_hand_counts_at_once_on_every_node_and_ends_with_an_edit() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let node = ScriptedNode::on(&redis, &script).jobs("[queues.mail]\nlimit = 1\n").start();
    until("the queue is known", LONG, || Some(()).filter(|()| queue(&ctl, "mail")["limit"] == 1));
    assert_eq!(
        ctl.run(&["queue", "set", "mail", "limit=3", "rate=10/s"]).stdout,
        "queue mail set: limit=3 rate=10/s\n"
    );
    let mail = queue(&ctl, "mail");
    assert_eq!(
        (&mail["limit"], &mail["rate"], &mail["burst"]),
        (&json!(3), &json!("10/1s"), &json!(10))
    );
    assert!(mail["set_by"].is_string() && mail["set_at"].is_string(), "{mail}");
    node.reload("[queues.mail]\nlimit = 2\n");
    let mail = until("the edit is taken", LONG, || {
        Some(queue(&ctl, "mail")).filter(|mail| mail["limit"] == 2)
    });
    assert_eq!((&mail["rate"], &mail["set_by"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_group_that_jobs_name_and_no_file_has_any_more_is_listed_and_named_by_doctor() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[groups.g]\nmode = \"alternate\"\norder = [\"a\", \"b\"]\n")
        .start();
    let groups = || ctl.run(&["groups", "--json"]).good().json();
    until("the group is known", LONG, || Some(()).filter(|()| groups()[0]["mode"] == "alternate"));
    assert_eq!(groups()[0]["declared"], true);
    for (name, group) in [("a", "g"), ("b", "g")] {
        ctl.run(&["add", "--name", name, "--group", group, "--every", "1h", "--shell", "true"])
            .good();
    }
    node.reload("");
    until("no file has it", LONG, || Some(()).filter(|()| groups()[0]["declared"] == false));
    assert_eq!((&groups()[0]["name"], &groups()[0]["mode"]), (&json!("g"), &json!("exclusive")));
    let table = ctl.run(&["groups"]).good().stdout;
    assert!(
        table.contains("exclusive (default mode: no jobs file declares this group)"),
        "{table}"
    );
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(
        reported.contains("no file declares this group, but 2 jobs name it (a, b)")
            && reported.contains("[groups.g]"),
        "{reported}"
    );
    for name in ["a", "b"] {
        ctl.run(&["cancel", name]).good();
    }
    assert_eq!(groups(), json!([]));
}

#[test]
fn a_job_nobody_has_in_not_while_is_reported_by_check_and_by_doctor() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.toml");
    std::fs::write(&file, "[jobs.backup]\nshell = 'true'\n[jobs.a]\nshell = 'true'\nnot_while = ['bakcup', 'backup']\n").unwrap();
    let file = file.display().to_string();
    let checked = ctl.run(&["check", &file]).good();
    let wanted = "jobs.a.not_while: this file has no job bakcup, did you mean \"backup\"?";
    assert!(
        checked.stderr.contains(wanted) && checked.stderr.matches("not_while").count() == 1,
        "{checked:?}"
    );
    ctl.run(&["apply", &file]).good();
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(
        reported.contains("no job has this name, but 1 job names it in not_while (a)"),
        "{reported}"
    );
    ctl.run(&["add", "--name", "bakcup", "--shell", "true"]).good();
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(!reported.contains("no job has this name"), "{reported}");
}

#[test]
fn settings_that_cannot_be_read_are_reported_by_doctor() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    assert_eq!(ctl.run(&["queue", "set", "default", "limit=3"]).code, 0);
    let _: i64 = redis::cmd("HSET")
        .arg("{schedd}:queue:default")
        .arg("limit")
        .arg("many")
        .query(&mut redis.connection())
        .unwrap();
    let doctor = ctl.run(&["doctor"]).stdout;
    assert!(
        doctor.contains("stored settings that cannot be read count as not set: limit"),
        "{doctor}"
    );
    for (key, field, value) in
        [("group:y", "mode", "foo"), ("group:y", "gap_ms", "abc"), ("groups", "y", "alternate")]
    {
        let _: i64 = redis::cmd("HSET")
            .arg(format!("{{schedd}}:{key}"))
            .arg(field)
            .arg(value)
            .query(&mut redis.connection())
            .unwrap();
    }
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(
        reported.contains("group y")
            && reported.contains("stored settings that cannot be read count as not set: mode, gap"),
        "{reported}"
    );
    assert_eq!(queue(&ctl, "default")["limit"], Value::Null);
}

#[test]
fn a_queue_no_node_serves_is_unserved_and_untaken_runs_name_missing_labels() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[daemon]\nqueues = [\"default\"]\n[queues.mail]\n")
        .start();
    until("the queue is declared", LONG, || (queue(&ctl, "mail") != Value::Null).then_some(()));
    let add = |name: &str, queue: &str, work: &str| {
        let flags = [
            "add",
            "--name",
            name,
            "--queue",
            queue,
            "--requires",
            "gpu",
            "--in",
            "0s",
            "--shell",
            work,
        ];
        ctl.run(&flags).good();
    };
    add("a", "mail", "true");
    add("b", "default", "true");
    add("c", "default", "true");
    until("nobody takes it", LONG, || (queue(&ctl, "mail")["state"] == "unserved").then_some(()));
    let default = queue(&ctl, "default");
    let why = "no running node that serves this queue has the required label gpu";
    assert_eq!(default["state"], "open", "a node serves it: {default}");
    assert_eq!(default["unserved"], json!([{"runs": 2, "requires": ["gpu"], "reason": why}]));
    assert_eq!(queue(&ctl, "mail")["unserved"][0]["reason"], "no running node serves queue mail");
    let table = ctl.run(&["queues"]).good().stdout;
    let line = table.lines().find(|line| line.starts_with("default")).unwrap();
    assert!(
        line.contains(" open ") && line.ends_with(&format!("no node takes 2 runs: {why}")),
        "{table}"
    );
    node.reload("[daemon]\nlabels = [\"gpu\"]\n[queues.mail]\n");
    until("all are taken", LONG, || {
        let all = [queue(&ctl, "default"), queue(&ctl, "mail")];
        all.iter().all(|queue| queue["unserved"] == json!([]) && queue["depth"] == 0).then_some(())
    });
    ctl.run(&["queue", "pause", "default"]).good();
    assert_eq!(queue(&ctl, "default")["state"], "paused", "that holds first");
}

#[test]
fn a_queue_no_node_serves_is_unserved_before_a_run_of_it_is_due() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[daemon]\nqueues = [\"default\"]\n[queues.mail]\n")
        .start();
    until("the queue is declared", LONG, || (queue(&ctl, "mail") != Value::Null).then_some(()));
    ctl.run(&["add", "--name", "a", "--queue", "mail", "--in", "1h", "--shell", "true"]).good();
    let mail = queue(&ctl, "mail");
    assert_eq!(
        (&mail["state"], &mail["nodes"], &mail["scheduled"]),
        (&json!("unserved"), &json!(0), &json!(1)),
        "{mail}"
    );
    assert_eq!(queue(&ctl, "default")["state"], "open");
    node.reload("[daemon]\nqueues = [\"mail\"]\n[queues.mail]\n");
    until("it is served", LONG, || (queue(&ctl, "mail")["state"] == "open").then_some(()));
}

#[test]
fn of_a_queue_whose_nodes_all_claim_nothing_a_remark_says_so() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let file = |most: &str| format!("[daemon]\n{most}\n[queues.mail]\n");
    let nodes = ["n1", "n2"].map(|name| {
        ScriptedNode::on(&redis, &script).node(name).jobs(&file("max_running = 1")).start()
    });
    until("the queue is declared", LONG, || (queue(&ctl, "mail") != Value::Null).then_some(()));
    for job in ["a", "b"] {
        ctl.run(&["add", "--name", job, "--in", "0s", "--shell", "sleep 600"]).good();
    }
    let held = || queue(&ctl, "mail")["at_limit"].as_array().unwrap().clone();
    until("both are held", LONG, || (held().len() == 2).then_some(()));
    let table = ctl.run(&["queues"]).good().stdout;
    let line = table.lines().find(|line| line.starts_with("mail")).unwrap();
    assert!(line.contains("all 2 nodes that serve the queue start no runs: n"), "{table}");
    nodes[0].reload(&file("max_running = 9"));
    until("one claims", LONG, || held().is_empty().then_some(()));
    let table = ctl.run(&["queues"]).good().stdout;
    assert!(!table.contains("claim nothing"), "{table}");
}

#[test]
fn a_job_without_a_turn_is_refused_as_in_a_file() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let ctl = Schedctl::on(&redis);
    let file = "[groups.feed]\nmode = \"alternate\"\norder = [\"a\", \"b\"]\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(file).start();
    let add = |name: &str| {
        ctl.run(&["add", "--name", name, "--group", "feed", "--in", "1h", "--shell", "true"])
    };
    until("the group is declared", LONG, || (add("a").code == 0).then_some(()));
    add("c").refused(
        2,
        &["job c is not in the order of turns of group feed, wanted one of the jobs a, b"],
    );
}

#[test]
fn a_job_whose_queue_is_paused_says_so_in_list_and_show() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    ctl.run(&["add", "--name", "held", "--in", "1h", "--shell", "true"]).good();
    ctl.run(&["queue", "pause", "default"]).good();
    let listed = ctl.run(&["list"]).good().stdout;
    assert!(listed.contains("queue paused"), "{listed}");
    assert_eq!(ctl.run(&["list", "--json"]).good().json()[0]["queue_paused"], json!(true));
    let shown = ctl.run(&["show", "held"]).good().stdout;
    assert!(
        shown.contains("blocked       queue default has been paused since ")
            && shown.contains("queue resume default"),
        "{shown}"
    );
    ctl.run(&["run", "held"]).good();
    let by_hand = redis::cmd("ZRANGE")
        .arg("{schedd}:due:default")
        .arg(0)
        .arg(0)
        .query::<Vec<String>>(&mut redis.connection());
    let shown = ctl.run(&["show", &by_hand.unwrap()[0]]).good().stdout;
    assert!(shown.contains("blocked       queue default has been paused since "), "{shown}");
    ctl.run(&["queue", "resume", "default"]).good();
    assert!(!ctl.run(&["show", "held"]).good().stdout.contains("paused since"));
    assert_eq!(ctl.run(&["list", "--json"]).good().json()[0]["queue_paused"], json!(false));
}
