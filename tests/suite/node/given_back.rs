//! Runs that a journal gave back, and stretches that were skipped around them: each occurrence has one end.

use schedd::domain::run::RunState;

use super::QUICK;
use super::flushed::until_journaled;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[test]
fn a_pause_that_an_old_snapshot_brought_back_tells_no_occurrence_as_paused_whose_run_was_given_back() {
    let (mut redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let jobs = format!("{QUICK}[jobs.beat]\nevery = \"1s\"\nshell = {:?}\n", effects.shell("true"));
    let node = Schedd::on(&redis).node("one").jobs(&jobs).start();
    eye.wait_for_history("beat", 1);
    Schedctl::on(&redis).run(&["pause", "beat"]).good();
    let held = eye.job("beat").unwrap().held.unwrap().due().as_i64();
    let until_past = |eye: &Eye, at: i64| {
        until("some pass", LONG, || (eye.ask(eye.store().now()).unwrap().as_i64() > at).then_some(()));
    };
    until_past(&eye, held + 1_500);
    let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    Schedctl::on(&redis).run(&["resume", "beat"]).good();
    let count = eye.history("beat").len();
    let last = eye.wait_for_history("beat", count + 3).iter().map(|run| run.run.due()).max().unwrap();
    until_journaled(&[&node.state_home()], &format!("beat@{}", last.as_i64()));
    redis.restart();
    node.wait_for_log("given back");
    let eye = Eye::on(&redis);
    until_past(&eye, last.as_i64() + 3_000);
    Schedctl::on(&redis).run(&["resume", "beat"]).good();
    let stretch = eye.run(&format!("beat@{held}")).unwrap();
    let (to, skipped) = stretch.skipped.unwrap();
    assert_eq!((stretch.state, stretch.reason.as_deref()), (RunState::Skipped, Some("paused")));
    let own = eye.history("beat").into_iter().map(|run| run.run.due().as_i64()).filter(|due| held < *due && *due <= to.as_i64());
    let own = u64::try_from(own.count()).unwrap();
    assert!(own >= 3, "{stretch:?}");
    // Each occurrence from the first to the last is either told there or has a record of its own.
    assert_eq!(u64::try_from((to.as_i64() - held) / 1_000 + 1).unwrap(), skipped + own);
    let told = Schedctl::on(&redis).run(&["explain", "beat", "--at", &last.to_string()]).good().stdout;
    assert!(told.contains("It succeeded on") && !told.contains("It was skipped"), "{told}");
}
