//! `@reboot`: once for each boot of a host, on that host only. A boot is made by changing what Redis remembers of the last one.

use redis::Commands as _;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;

use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const JOB: &str = "[jobs.warm-up]\ncron = \"@reboot\"\nshell = \"true\"\n";
const TWO_JOBS: &str = "[jobs.warm-up]\ncron = \"@reboot\"\nshell = \"true\"\n[jobs.late]\ncron = [\"@reboot\", \"0 0 1 1 *\"]\nshell = \"true\"\n";

fn this_host() -> Lane {
    Lane::of_host(&rustix::system::uname().nodename().to_string_lossy())
}

fn restart(node: &mut ScriptedNode) {
    node.stop();
    node.start_again();
}

#[test]
fn a_job_runs_once_after_a_boot_and_neither_after_a_restart_nor_an_edit() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut node = ScriptedNode::on(&redis, &script).node("one").jobs(JOB).start();
    let ran = eye.wait_for_history("warm-up", 1);
    assert_eq!((ran[0].state, &ran[0].lane), (RunState::Succeeded, &this_host()));
    let mut connection = redis.connection();
    let mut noted =
        || connection.zcard::<_, u32>("{schedd}:boots").ok().filter(|boots| *boots == 1);
    until("the boot is noted", LONG, &mut noted);

    assert!(eye.job("warm-up").unwrap().is_live(), "it waits for the next boot");

    // Added since the boot, then a restart and a second node of the same host.
    node.rewrite(TWO_JOBS);
    until("the other job is there", LONG, || eye.job("late"));
    restart(&mut node);
    let other = ScriptedNode::on(&redis, &script).node("two").jobs(TWO_JOBS).start();
    other.wait_for_log("All jobs of the jobs file are applied");

    // The next boot.
    let _: () = connection.del(&["{schedd}:boots", "{schedd}:boot_runs"]).unwrap();
    restart(&mut node);
    assert_eq!(eye.wait_for_history("late", 1).len(), 1);
    assert_eq!(eye.wait_for_history("warm-up", 2).len(), 2);
    assert!(eye.job("late").unwrap().pending.is_some(), "its regular run is left alone");
}

#[test]
fn a_boot_after_a_job_s_end_starts_nothing_of_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let over =
        "[jobs.over]\ncron = \"@reboot\"\nend = \"2020-01-01T00:00:00Z\"\nshell = \"true\"\n";
    let _node = ScriptedNode::on(&redis, &script).node("one").jobs(&format!("{over}{JOB}")).start();
    eye.wait_for_history("warm-up", 1);
    let mut connection = redis.connection();
    let mut noted =
        || connection.zcard::<_, u32>("{schedd}:boots").ok().filter(|boots| *boots == 1);
    until("the boot is noted", LONG, &mut noted);
    assert!(eye.job("over").unwrap().is_live());
    assert!(eye.wait_for_history("over", 0).is_empty());
}

#[test]
fn a_run_for_another_host_is_left_to_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).node("one").jobs(JOB).start();
    let own = eye.wait_for_history("warm-up", 1).remove(0).run;
    let far = schedd_schedule::names::RunId::manual(own.job().clone(), own.due(), "far").unwrap();
    eye.ask(eye.store().plant_reboot(&far, &Lane::of_host("elsewhere"), "b1")).unwrap();
    // One planted after it, for any host, has run.
    let hand = schedd_schedule::names::RunId::manual(own.job().clone(), own.due(), "hand").unwrap();
    eye.ask(eye.store().plant_manual(&hand, &"default".parse().unwrap(), None)).unwrap();
    eye.wait_for_history("warm-up", 2);
    let left = eye.run(&far.to_string()).unwrap();
    assert_eq!((left.state, left.attempt), (RunState::Scheduled, 0));
}

#[test]
fn what_a_job_requires_a_node_of_the_host_has_to_carry_for_its_run_after_a_boot() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let file = format!(
        "{JOB}[jobs.drivers]\ncron = \"@reboot\"\nrequires = [\"gpu\"]\npriority = 5\nshell = \"true\"\n"
    );
    let _plain = ScriptedNode::on(&redis, &script).node("plain").jobs(&file).start();
    eye.wait_for_history("warm-up", 1);
    let _gpu = ScriptedNode::on(&redis, &script).node("gpu").jobs(&file).labels(&["gpu"]).start();
    let ran = eye.wait_for_history("drivers", 1);
    assert_eq!((ran[0].node.as_deref(), ran[0].lane.queue()), (Some("gpu"), this_host().queue()));
    let mut connection = redis.connection();
    let mut noted =
        || connection.zcard::<_, u32>("{schedd}:boots").ok().filter(|boots| *boots == 2);
    until("the boot is noted for both", LONG, &mut noted);
    assert_eq!((eye.history("warm-up").len(), eye.history("drivers").len()), (1, 1));
}
