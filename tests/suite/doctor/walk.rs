//! Whatever is done to a job, in whatever order, with nodes that die and records that are trimmed on the way: the ledger is
//! complete, each occurrence stands in exactly one place, and the books agree.

use proptest::prelude::*;
use schedd::config;
use schedd::domain::job::notice::notice_job;
use schedd::domain::name::names::RunId;
use schedd::domain::run::run_state::RunState;
use schedd::domain::time::unix_millis::UnixMillis;
use schedd::engine::Definition;
use schedd::engine::dispatch::orphans;
use schedd::engine::maintenance::full_check::examine;
use schedd::engine::planning::backfill_plan;
use schedd::engine::planning::backfill_plan::BackfillWindow;
use schedd::engine::planning::retry_order;
use schedd::store::{ClaimReply, Ended, JobRecord, LaneAsk, LanePoll, NoticeOrder, Verdict};
use serde_json::{Value, json};

use crate::scripts::data::accounting::{Play, Step, rules, steps};
use crate::scripts::world::{claimant, name, queue, t, token};
use crate::support::cases::cases;

#[derive(Debug, Clone)]
enum Deed {
    Of(Step),
    Die(usize, bool),
    RetryDead,
    Purge,
    Trim(usize),
    ForgetJob,
    /// A teller plants what is to be told.
    Tell,
    /// A notice is told, or tried in vain.
    Told(bool),
    /// A node looks which runs are late.
    Judge,
    /// A person asks that so many of the past occurrences are made up for.
    Backfill(usize),
    /// Nobody is to make up for anything any more.
    DropBackfill,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let more = prop_oneof![
        3 => (0..4_usize, any::<bool>()).prop_map(|(at, is_lost)| Deed::Die(at, is_lost)),
        3 => Just(Deed::RetryDead),
        1 => Just(Deed::Purge),
        3 => (0..6_usize).prop_map(Deed::Trim),
        1 => Just(Deed::ForgetJob),
        4 => Just(Deed::Tell),
        6 => any::<bool>().prop_map(Deed::Told),
        4 => Just(Deed::Judge),
        1 => (1..4_usize).prop_map(Deed::Backfill),
        1 => Just(Deed::DropBackfill),
    ];
    (steps(), prop::collection::vec((any::<prop::sample::Index>(), more), 0..20)).prop_map(|(steps, more)| {
        let mut deeds: Vec<Deed> = steps.into_iter().map(Deed::Of).collect();
        for (at, deed) in more {
            let at = at.index(deeds.len() + 1);
            deeds.insert(at, deed);
        }
        deeds
    })
}

async fn dead(play: &Play) -> Vec<schedd::domain::name::names::RunId> {
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
                retry_order::retry_run(&store, run).await.unwrap();
            }
        }
        Deed::Purge => drop(store.purge_dead(&dead(play).await).await.unwrap()),
        Deed::Trim(most) => drop(store.forget_runs(None, UnixMillis::EPOCH, *most).await.unwrap()),
        Deed::Tell => tell(play).await,
        Deed::Told(is_good) => told(play, *is_good).await,
        Deed::Judge => {
            for run in store.list_overdue(t(play.now), 0, 50).await.unwrap().0 {
                store.watch_run(&run).await.unwrap();
            }
            for deadline in store.list_deadlines(0, 50).await.unwrap().into_iter().flatten() {
                store.judge_deadline(&deadline).await.unwrap();
            }
        }
        Deed::Backfill(most) => backfill(play, *most).await,
        Deed::DropBackfill => drop(store.drop_backfill(&name("a")).await.unwrap()),
        Deed::Of(_) | Deed::Die(..) | Deed::ForgetJob => {}
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
async fn tell(play: &Play) {
    let store = play.world.at(play.now);
    for notice in store.list_notices(0, 100).await.unwrap().0 {
        let told = store.read_job(notice.about.job()).await.unwrap().map(|record| Definition::of(record).unwrap());
        let hidden = told.and_then(|told| notice_job(&told.spec, notice.kind)).map(|hidden| config::to_canonical(&hidden));
        let definition = hidden.map(|text| (text.clone(), config::hash(&text)));
        store.plant_notice(&notice, &NoticeOrder { definition, tz: "UTC".to_owned() }).await.unwrap();
    }
}

/// Executes the first notice that is due, as a node does.
async fn told(play: &Play, is_good: bool) {
    let store = play.world.at(play.now);
    let poll = store.list_ripe(&[LaneAsk::new(queue("@@notices"), 50)]).await.unwrap();
    let LanePoll::Due { ripe, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    let Some(entry) = ripe.first() else { return };
    let run: RunId = entry.member.parse().unwrap();
    if store.read_job(run.job()).await.unwrap().is_none() {
        assert!(orphans::end_orphan(&store, &run).await.unwrap(), "{run} is left to quarantine");
        return;
    }
    let order = play.world.order(&run).await;
    let replies = store.claim_runs(&claimant("n1"), &queue("@@notices"), &token(), &[order]).await.unwrap();
    if let Some(ClaimReply::Claimed(claim)) = replies.into_iter().next() {
        let state = if is_good { RunState::Succeeded } else { RunState::Failed };
        play.world.finish(play.now, &claim, Verdict::Final(state)).await;
    }
}

/// Rules of a job that wants this and that told, and whose runs may have to pass a gate one by one.
fn telling_rules() -> impl Strategy<Value = Value> {
    let within = prop::option::of(prop::sample::select(vec![("30s", "2m"), ("1m", "300d"), ("200d", "300d")]));
    (rules(), any::<[bool; 4]>(), within, any::<bool>()).prop_map(|(mut rules, wanted, within, has_key)| {
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
    })
}

async fn walk(rules: Value, deeds: &[Deed]) {
    let mut play = Play::begin(rules).await;
    for (at, deed) in deeds.iter().enumerate() {
        Box::pin(do_it(&mut play, deed)).await;
        // Whoever ends a backfill run plants the next, and the janitor does for those that end otherwise.
        backfill_plan::advance(&play.world.at(play.now), &name("a")).await.unwrap();
        if at % 8 == 7 || at + 1 == deeds.len() {
            let exam = examine(&play.world.at(play.now)).await.unwrap();
            assert!(exam.findings.is_empty() && exam.partial.is_none(), "after {deed:?}: {:#?}", exam.findings);
            play.assert_accounted().await;
        }
    }
}

#[test]
fn after_any_operations_and_crashes_the_ledger_is_complete_and_doctor_clean() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config =
        ProptestConfig { cases: cases(50), failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::default() };
    proptest!(config, |(rules in telling_rules(), deeds in deeds())| {
        runtime.block_on(walk(rules, &deeds));
    });
}
