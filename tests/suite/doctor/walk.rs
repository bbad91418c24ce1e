//! Whatever is done to a job, in whatever order, with nodes that die and records that are trimmed on the way: the ledger is
//! complete, each occurrence stands in exactly one place, and the data is consistent.

use proptest::prelude::*;
use schedd::engine::Definition;
use schedd::engine::dispatch::orphans;
use schedd::engine::maintenance::full_check::examine;
use schedd::engine::planning::backfill_plan;
use schedd::engine::planning::backfill_plan::BackfillWindow;
use schedd::engine::planning::retry_order;
use schedd_core::config;
use schedd_core::domain::job::notice::notice_job;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    ClaimReply, DueRange, Ended, JobRecord, LaneAsk, LanePoll, NoticeOrder, Verdict,
};
use serde_json::{Value, json};

use crate::scripts::data::accounting::{Play, Step, rules, steps};
use crate::scripts::world::{claimant, name, queue, t, token};
use crate::support::cases::cases;

#[derive(Debug, Clone)]
enum Operation {
    Of(Step),
    Die(usize, bool),
    RetryDead,
    Purge,
    Trim(usize),
    ForgetJob,
    /// A teller plants what is to be told.
    Notice,
    /// A notice is told, or tried in vain.
    Noticed(bool),
    /// A node looks which runs are late.
    Judge,
    /// A person asks that so many of the past occurrences are made up for.
    Backfill(usize),
    /// Nobody is to make up for anything any more.
    DropBackfill,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let more = prop_oneof![
        3 => (0..4_usize, any::<bool>()).prop_map(|(at, is_lost)| Operation::Die(at, is_lost)),
        3 => Just(Operation::RetryDead),
        1 => Just(Operation::Purge),
        3 => (0..6_usize).prop_map(Operation::Trim),
        1 => Just(Operation::ForgetJob),
        4 => Just(Operation::Notice),
        6 => any::<bool>().prop_map(Operation::Noticed),
        4 => Just(Operation::Judge),
        1 => (1..4_usize).prop_map(Operation::Backfill),
        1 => Just(Operation::DropBackfill),
    ];
    (steps(), prop::collection::vec((any::<prop::sample::Index>(), more), 0..20)).prop_map(
        |(steps, more)| {
            let mut operations: Vec<Operation> = steps.into_iter().map(Operation::Of).collect();
            for (at, operation) in more {
                let at = at.index(operations.len() + 1);
                operations.insert(at, operation);
            }
            operations
        },
    )
}

async fn dead(play: &Play) -> Vec<schedd_schedule::names::RunId> {
    let page = play.world.at(play.now).read_ended(&Ended::dead(), 0, 100).await.unwrap();
    page.runs.into_iter().map(|run| run.run).collect()
}

async fn do_it(play: &mut Play, operation: &Operation) {
    match operation {
        Operation::ForgetJob => {
            play.now += 1;
            return play.forget_job().await;
        }
        Operation::Of(step) => return Box::pin(play.step(step)).await,
        Operation::Die(at, is_lost) => {
            play.now += 1;
            let state = if *is_lost { RunState::Lost } else { RunState::Failed };
            return play.settle(*at, Verdict::Final(state)).await;
        }
        _ => play.now += 1,
    }
    let store = play.world.at(play.now);
    match operation {
        Operation::RetryDead => {
            if let Some(run) = dead(play).await.first() {
                retry_order::retry_run(&store, run).await.unwrap();
            }
        }
        Operation::Purge => drop(store.purge_dead(&dead(play).await).await.unwrap()),
        Operation::Trim(most) => {
            store.forget_runs(None, UnixMillis::EPOCH, *most).await.unwrap();
        }
        Operation::Notice => report(play).await,
        Operation::Noticed(is_good) => reported(play, *is_good).await,
        Operation::Judge => {
            let due = DueRange { from: t(-100_000_000), skip: 0, before: t(play.now) };
            for run in store.list_overdue(due, 50).await.unwrap().runs {
                store.watch_run(&run).await.unwrap();
            }
            for deadline in store.list_deadlines(0, 50).await.unwrap().into_iter().flatten() {
                store.judge_deadline(&deadline).await.unwrap();
            }
        }
        Operation::Backfill(most) => backfill(play, *most).await,
        Operation::DropBackfill => drop(store.drop_backfill(&name("a")).await.unwrap()),
        Operation::Of(_) | Operation::Die(..) | Operation::ForgetJob => {}
    }
}

/// Has past occurrences of the job made up for, as a person does.
async fn backfill(play: &Play, most: usize) {
    let store = play.world.at(play.now);
    let record = store.read_job(&name("a")).await.unwrap().filter(JobRecord::is_live);
    let Some(definition) = record.map(|record| Definition::of(record).unwrap()) else { return };
    let window = BackfillWindow { from: t(0), to: t(play.now) };
    let planned = backfill_plan::plan(&store, &definition, window, most).await.unwrap();
    store.queue_backfill(&name("a"), &planned.runs).await.unwrap();
}

/// Plants the notices there are, of the definition their job has by now.
async fn report(play: &Play) {
    let store = play.world.at(play.now);
    for notice in store.list_notices(0, 100).await.unwrap().0 {
        let reported = store
            .read_job(notice.about.job())
            .await
            .unwrap()
            .map(|record| Definition::of(record).unwrap());
        let definition = reported
            .and_then(|reported| notice_job(&reported.spec, notice.kind))
            .map(|hidden| config::to_canonical(&hidden));
        store
            .plant_notice(&notice, &NoticeOrder { definition, tz: "UTC".to_owned() })
            .await
            .unwrap();
    }
}

/// Executes the first notice that is due, as a node does.
async fn reported(play: &Play, is_good: bool) {
    let store = play.world.at(play.now);
    let poll = store.list_due(&[LaneAsk::new(queue("@@notices"), 50)]).await.unwrap();
    let LanePoll::Due { due, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    let Some(entry) = due.first() else { return };
    let run: RunId = entry.member.parse().unwrap();
    if store.read_job(run.job()).await.unwrap().is_none() {
        assert!(orphans::end_orphan(&store, &run).await.unwrap(), "{run} is left to quarantine");
        return;
    }
    let order = play.world.order(&run).await;
    let replies = store
        .claim_runs(usize::MAX, &claimant("n1"), &queue("@@notices"), &token(), &[order])
        .await
        .unwrap();
    if let Some(ClaimReply::Claimed(claim)) = replies.into_iter().next() {
        let state = if is_good { RunState::Succeeded } else { RunState::Failed };
        play.world.finish(play.now, &claim, Verdict::Final(state)).await;
    }
}

/// Rules of a job that wants this and that told, and whose runs may have to pass a gate one by one.
fn reporting_rules() -> impl Strategy<Value = Value> {
    let within = prop::option::of(prop::sample::select(vec![
        ("30s", "2m"),
        ("1m", "300d"),
        ("200d", "300d"),
    ]));
    (rules(), any::<[bool; 4]>(), within, any::<bool>()).prop_map(
        |(mut rules, wanted, within, has_key)| {
            let keys = rules.as_object_mut().unwrap();
            let kinds = ["on_failure", "on_success", "on_recovered", "on_late"];
            for (kind, _) in kinds.into_iter().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
                keys.insert(kind.to_owned(), json!({"shell": "true"}));
            }
            if let Some((start, finish)) = within.filter(|_| wanted[3]) {
                keys.insert("must_start_within".to_owned(), json!(start));
                keys.insert("must_finish_within".to_owned(), json!(finish));
            }
            if has_key {
                keys.insert("key".to_owned(), json!("k"));
            }
            rules
        },
    )
}

async fn walk(rules: Value, operations: &[Operation]) {
    let mut play = Play::begin(rules).await;
    for (at, operation) in operations.iter().enumerate() {
        Box::pin(do_it(&mut play, operation)).await;
        // Whoever ends a backfill run plants the next, and the janitor does for those that end otherwise.
        backfill_plan::advance(&play.world.at(play.now), &name("a")).await.unwrap();
        if at % 8 == 7 || at + 1 == operations.len() {
            let exam = examine(&play.world.at(play.now)).await.unwrap();
            assert!(
                exam.findings.is_empty() && exam.partial.is_none(),
                "after {operation:?}: {:#?}",
                exam.findings
            );
            play.assert_accounted().await;
        }
    }
}

#[test]
fn after_any_operations_and_crashes_the_ledger_is_complete_and_doctor_clean() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(50),
        failure_persistence: None,
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    };
    proptest!(config, |(rules in reporting_rules(), operations in operations())| {
        runtime.block_on(walk(rules, &operations));
    });
}
