//! Nodes and Redis killed again and again under load: the promises, judged by what the jobs did.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::node::QUICK;
use crate::support::daemon::Schedd;
use crate::support::effects::{Effect, Effects};
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;

const STORM: Duration = Duration::from_secs(20);
const ONE_SHOTS: usize = 150;

#[test]
fn in_a_storm_of_kills_every_run_is_done_and_no_two_attempts_of_one_overlap() {
    let (mut redis, effects) = (TestRedis::durable(), Effects::new());
    let mut nodes: Vec<Schedd> = ["one", "two", "three"]
        .iter()
        .map(|name| Schedd::on(&redis).node(name).jobs(QUICK).start())
        .collect();
    let eye = Eye::on(&redis);
    for number in 0..ONE_SHOTS {
        let at = format!("{}ms", 1_000 + number * 120);
        eye.add(
            &json!({"name": format!("n{number}"), "in": at, "shell": effects.shell("sleep 0.3")}),
        );
    }
    let started = Instant::now();
    let mut blows = 0;
    while started.elapsed() < STORM {
        blows += 1;
        let node = blows % nodes.len();
        nodes[node].kill9();
        if blows % 4 == 0 {
            redis.restart();
        }
        // The blows are to fall in all phases of a run, so they are not awaited but timed.
        std::thread::sleep(Duration::from_millis(900 + 130 * (blows as u64 % 5)));
        nodes[node].start_again();
    }
    drop(eye);
    let eye = Eye::on(&redis);
    until("all runs have succeeded", Duration::from_secs(90), || {
        let stats = eye.ask(eye.store().read_stats()).ok()?;
        Some(()).filter(|()| stats.totals.get("succeeded") == Some(&(ONE_SHOTS as u64)))
    });
    let mut by_run: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    for effect in effects.all() {
        by_run.entry(effect.run.clone()).or_default().push(effect);
    }
    assert_eq!(by_run.len(), ONE_SHOTS);
    for (run, attempts) in &by_run {
        assert!(
            attempts.iter().any(|attempt| attempt.ended.is_some()),
            "{run} was never done: {attempts:?}"
        );
        assert!(
            attempts.windows(2).all(|pair| pair[0].fence < pair[1].fence),
            "{run}: {attempts:?}"
        );
        for pair in attempts.windows(2) {
            assert!(
                pair[0].ended.is_none_or(|end| end <= pair[1].began),
                "{run} ran twice at once: {attempts:?}"
            );
        }
    }
    let again = by_run.values().filter(|attempts| attempts.len() > 1).count();
    println!("{blows} nodes killed, {again} of {ONE_SHOTS} runs started again");
}
