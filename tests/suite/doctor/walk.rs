//! Whatever is done to a job, in whatever order, with nodes that die and records that are trimmed on the way: the ledger is
//! complete, each occurrence stands in exactly one place, and the books agree.

use proptest::prelude::*;
use schedd::domain::run::RunState;
use schedd::domain::time::UnixMillis;
use schedd::engine::examination::examine;
use schedd::engine::retrying;
use schedd::store::{Ended, Verdict};
use serde_json::Value;

use crate::scripts::accounting::{Play, Step, rules, steps};

#[derive(Debug, Clone)]
enum Deed {
    Of(Step),
    Die(usize, bool),
    RetryDead,
    Purge,
    Trim(usize),
    ForgetJob,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let more = prop_oneof![
        3 => (0..4_usize, any::<bool>()).prop_map(|(at, is_lost)| Deed::Die(at, is_lost)),
        3 => Just(Deed::RetryDead),
        1 => Just(Deed::Purge),
        3 => (0..6_usize).prop_map(Deed::Trim),
        1 => Just(Deed::ForgetJob),
    ];
    (steps(), prop::collection::vec((any::<prop::sample::Index>(), more), 0..12)).prop_map(|(steps, more)| {
        let mut deeds: Vec<Deed> = steps.into_iter().map(Deed::Of).collect();
        for (at, deed) in more {
            let at = at.index(deeds.len() + 1);
            deeds.insert(at, deed);
        }
        deeds
    })
}

async fn dead(play: &Play) -> Vec<schedd::domain::ids::RunId> {
    let page = play.world.at(play.now).read_ended(&Ended::dead(), 0, 100).await.unwrap();
    page.runs.into_iter().map(|run| run.run).collect()
}

async fn do_it(play: &mut Play, deed: &Deed) {
    match deed {
        Deed::ForgetJob => {
            play.now += 1;
            return play.forget_job().await;
        }
        Deed::Of(step) => return Box::pin(play.step(step)).await,
        Deed::Die(at, is_lost) => {
            play.now += 1;
            let state = if *is_lost { RunState::Lost } else { RunState::Failed };
            return play.settle(*at, Verdict::Final(state)).await;
        }
        _ => play.now += 1,
    }
    let store = play.world.at(play.now);
    match deed {
        Deed::RetryDead => {
            if let Some(run) = dead(play).await.first() {
                retrying::retry_run(&store, run).await.unwrap();
            }
        }
        Deed::Purge => drop(store.purge_dead(&dead(play).await).await.unwrap()),
        Deed::Trim(most) => drop(store.forget_runs(None, UnixMillis::EPOCH, *most).await.unwrap()),
        Deed::Of(_) | Deed::Die(..) | Deed::ForgetJob => {}
    }
}

async fn walk(rules: Value, deeds: &[Deed]) {
    let mut play = Play::begin(rules).await;
    for (at, deed) in deeds.iter().enumerate() {
        Box::pin(do_it(&mut play, deed)).await;
        if at % 8 == 7 || at + 1 == deeds.len() {
            let exam = examine(&play.world.at(play.now)).await.unwrap();
            assert!(exam.findings.is_empty() && exam.partial.is_none(), "after {deed:?}: {:#?}", exam.findings);
            play.assert_accounted().await;
        }
    }
}

#[test]
fn whatever_is_done_to_a_job_and_whoever_dies_on_the_way_the_ledger_is_complete_and_doctor_clean() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 120, failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::default() };
    proptest!(config, |(rules in rules(), deeds in deeds())| {
        runtime.block_on(walk(rules, &deeds));
    });
}
