//! The worlds the scripts are called in.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{NodeName, RunId};
use schedd_store::{
    ApplyOrder, ChainEndRecord, DueEntry, JobRecord, NameClaim, NodeBeat, NoticeRecord,
    OutputFrames, OutputStream, SkipOrder, SkipReply, SourceKind, StoreError, Verdict,
};

use crate::scripts::chains::chaining::child;
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t};
use crate::support::facts::node_facts;
use crate::support::redis::TestRedis;

/// Everything the calls below name: job `a` of node n1's file, due at 0, next at 1000; it has run once, at -500.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) job: JobRecord,
    pub(super) run: RunId,
    pub(super) claim: Option<schedd_store::Claim>,
    pub(super) entry: DueEntry,
    /// Of the end of the first run.
    pub(super) notice: Option<NoticeRecord>,
    /// The same end, as the child of the job waits for it.
    pub(super) chain_end: Option<ChainEndRecord>,
}

/// The state a script is called in.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stage {
    Planted,
    Claimed,
    Paused,
    Dead,
    EntryAside,
    KeyAside,
    Lost,
    Backfilled,
    Skipped,
    Folded,
    Notified,
    Chained,
}

pub(super) fn stage_of(script: &str) -> Stage {
    match script {
        "finish_plain_runs"
        | "finish_run"
        | "recover_run"
        | "renew_leases"
        | "renew_leases_in_move"
        | "note_progress"
        | "write_output"
        | "forget_outputs" => Stage::Claimed,
        "resume_job" => Stage::Paused,
        "retry_run" => Stage::Dead,
        "restore_entry" => Stage::EntryAside,
        "restore_key" | "discard_entries" => Stage::KeyAside,
        "return_run" => Stage::Lost,
        "repair_skipped_range" => Stage::Skipped,
        "repair_ledger_range" => Stage::Folded,
        "plant_backfill" | "drop_backfill" => Stage::Backfilled,
        "plant_notice" => Stage::Notified,
        "plant_child" => Stage::Chained,
        _ => Stage::Planted,
    }
}

pub(super) async fn scene(redis: TestRedis, namespace: &str, stage: Stage) -> Scene {
    let world = World::on(redis, namespace);
    let notify = if stage == Stage::Notified { "on_success" } else { "" }.to_owned();
    let order = ApplyOrder {
        kind: SourceKind::File,
        source: "n1".to_owned(),
        notify,
        ..definition("a", -500)
    };
    let first = world.plant_as(order).await;
    if stage == Stage::Chained {
        world.at(-1000).apply_job(&child("c", "after a")).await.unwrap();
    }
    let claim = world.win_with(-500, &first, Overlap::Skip, 0).await;
    world.at(-499).write_output(&claim, &printed()).await.unwrap();
    world.succeed(-499, &claim).await;
    beat(&world).await.unwrap();
    let run = run_of("a", 0);
    // A time that has come.
    let _: i64 = world.raw("ZADD", "deadlines", &["1", &format!("{run} start")]);
    let mut claim = None;
    if stage == Stage::Claimed {
        let won = world.win_with(0, &run, Overlap::Skip, 1000).await;
        world.at(0).write_output(&won, &printed()).await.unwrap();
        claim = Some(won);
    }
    if stage == Stage::Dead {
        let won = world.win_with(0, &run, Overlap::Skip, 1000).await;
        world.finish(0, &won, Verdict::Final(RunState::Failed)).await;
        claim = Some(won);
    }
    if stage == Stage::Lost {
        let won = world.win_with(0, &run, Overlap::Skip, 1000).await;
        let _: i64 = world.raw("DEL", &format!("run:{run}"), &[]);
        let _: i64 = world.raw("DEL", "leases", &[]);
        let _: i64 = world.raw("DEL", "open:a", &[]);
        let _: () = world.raw("SET", "epoch", &["20-n1-b"]);
        claim = Some(won);
    }
    // A node nobody has seen for long.
    let _: i64 = world.raw("ZADD", "nodes", &["1", "n2"]);
    // A lane nobody has used for long.
    let _: i64 = world.raw("ZADD", "lanes", &["1", "q!9"]);
    if stage == Stage::Backfilled {
        world.at(0).queue_backfill(&name("a"), &[backfilled()]).await.unwrap();
    }
    if matches!(stage, Stage::Skipped | Stage::Folded) {
        let order = skipping(&world.job("a").await, &run);
        assert_eq!(world.at(2000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    }
    if stage == Stage::Folded {
        world.at(3000).forget_runs(None, t(3000), usize::MAX).await.unwrap();
    }
    if stage == Stage::Paused {
        world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    }
    // Held by a job that is over, and by one that is to lose it.
    let _: i64 = world.raw("HSET", "unique:k", &["job", "h"]);
    let _: i64 = world.raw("HSET", "unique:o", &["job", "a"]);
    let job = world.job("a").await;
    let entry = DueEntry { member: run.to_string(), score: t(0).as_i64().to_string() };
    if stage == Stage::EntryAside {
        world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap();
    }
    if stage == Stage::KeyAside {
        let _: i64 = world.raw("HSET", "stop_requests", &[&run.to_string(), "x"]);
        world.at(0).quarantine_key("stop_requests", "a test", None).await.unwrap();
    }
    let notice = world.at(0).list_notices(0, 1).await.unwrap().0.pop();
    let chain_end = world.store.list_chain_ends(0, 1).await.unwrap().0.pop();
    Scene { world, job, run, claim, entry, notice, chain_end }
}

/// The run and the occurrence behind it, which were missed.
fn skipping(job: &JobRecord, run: &RunId) -> SkipOrder {
    SkipOrder {
        run: run.clone(),
        rev: job.rev.clone(),
        lane: queue("default"),
        reason: "missed",
        last_due: t(1000),
        count: 2,
        successor: Some(successor("a", 2000)),
    }
}

pub(super) fn printed() -> OutputFrames {
    let mut frames = OutputFrames::new(0);
    frames.push_head(OutputStream::Stdout, b"hello");
    frames
}

pub(super) async fn beat(world: &World) -> Result<(), StoreError> {
    let facts = node_facts(t(0));
    let (node, gone_after): (NodeName, _) =
        ("n1".parse().unwrap(), std::time::Duration::from_secs(30));
    let beat = NodeBeat {
        node: &node,
        incarnation: "i1",
        gone_after,
        claim: NameClaim::Ask,
        facts: &facts,
    };
    world.at(0).beat_node(&beat).await.map(|_| ())
}

/// The key a script's header calls `name`, less the namespace; none for the channel, which is no key.
pub(super) fn key_named(script: &str, name: &str, scene: &Scene) -> Option<String> {
    let run = &scene.run;
    Some(match name {
        "nudge" => return None,
        "job" | "audit_log" if script == "add_jobs" => format!("{name}:new"),
        "run" if script == "add_jobs" => format!("run:{}", run_of("new", 2000)),
        "backfill" => "backfill:a".to_owned(),
        "run" if script.ends_with("_backfill") => format!("run:{}", backfilled()),
        // Whatever it holds is what is moved.
        "key" if script == "quarantine_key" => return None,
        // Whatever it holds is what is deleted.
        "aside" if script == "discard_entries" => return None,
        "key" => "stop_requests".to_owned(),
        "index" if script == "read_page" => "jobs".to_owned(),
        "index" if script == "repair_run" => "catch_up:a".to_owned(),
        "aside" => format!("quarantined:stop_requests:{}", t(0).as_i64()),
        "job" | "manual" | "catch_up" | "chain" if script == "plant_child" => format!("{name}:c"),
        "run" if script == "plant_child" => format!("run:{}", run_of("c", -500)),
        "job_history" if script == "plant_child" => "history:c".to_owned(),
        "chain" => "chain:a".to_owned(),
        "job" | "manual" if script == "plant_notice" => format!("{name}:a/on_success"),
        "run" if script == "plant_notice" => format!("run:{}", scene.notice.as_ref().unwrap().run),
        "due" if script == "plant_notice" => "due:@@notices".to_owned(),
        "job" | "open" | "manual" | "waiting" | "catch_up" | "ledger" | "ledger_before"
        | "audit_log" | "schedule_versions" => {
            format!("{name}:a")
        }
        "open_list" => "open:a".to_owned(),
        "job_dead" => "dead:a".to_owned(),
        "job_history" => "history:a".to_owned(),
        "job_outputs" => "outputs:a".to_owned(),
        "due" if script == "plant_reboot" => "due:@one".to_owned(),
        "due" | "job_due" | "old_due" | "run_due" | "set" | "place" => "due:default".to_owned(),
        // The job stands in its place where it is no one-shot.
        "run" if script == "pause_job" => "job:a".to_owned(),
        "run" if script == "apply_job" => format!("run:{}", run_of("a", 2000)),
        "run" if matches!(script, "plant_manual" | "plant_reboot" | "set_next") => {
            format!("run:{}", by_hand())
        }
        "run" if script == "forget_runs" => format!("run:{}", run_of("a", -500)),
        "run" | "pending_run" | "range_run" | "rest_run" => format!("run:{run}"),
        "passed_run" => format!("run:{}", run_of("a", 7)),
        "successor_run" | "planted_run" => format!("run:{}", run_of("a", 1000)),
        "output" if script == "forget_outputs" => format!("output:{}#1", run_of("a", -500)),
        "output" => format!("output:{run}#1"),
        "answer" => "answer:x".to_owned(),
        "node" if script == "forget_nodes" => "node:n2".to_owned(),
        "source" if script == "forget_nodes" => "source:n2".to_owned(),
        "node" => "node:n1".to_owned(),
        "events" => "events:n1".to_owned(),
        "source" if script == "leave_node" => "source:each-node:n1".to_owned(),
        "source" => "source:n1".to_owned(),
        "running" | "queue" | "queue_state" => format!("{name}:default"),
        "settings" => "queue:q".to_owned(),
        "declared" if script == "forget_nodes" => "declared:n2".to_owned(),
        "declared" => "declared:n1".to_owned(),
        "index" => "queues".to_owned(),
        "unique" if script == "remove_job" => "unique:o".to_owned(),
        "unique" => "unique:k".to_owned(),
        "old_run" | "asking_run" | "subject_job" => "job:a".to_owned(),
        "old_unique" => "unique:o".to_owned(),
        "holder" => "job:h".to_owned(),
        shared => shared.to_owned(),
    })
}

pub(super) fn backfilled() -> RunId {
    RunId::backfill(name("a"), t(-500))
}

pub(super) fn by_hand() -> RunId {
    RunId::manual("a".parse().unwrap(), t(0), "x").unwrap()
}
