//! Each script with each of its keys holding something else: it is told by name, and nothing has been changed.

use schedd::domain::books::{CountFacts, Plan};
use schedd::domain::ids::{NodeName, RunId};
use schedd::domain::job::Overlap;
use schedd::domain::lane::Lane;
use schedd::domain::lateness::Stretch;
use schedd::domain::node_event::{Befell, NodeEvent};
use schedd::domain::queue::QueueSettings;
use schedd::domain::run::RunState;
use schedd::store::{
    ApplyOrder, Beat, ClaimReply, EventNote, JobMending, JobRecord, JobToInspect, LaneAsk, LanePoll, NameClaim, NodeFacts,
    OutputFrames, RemoveOrder, RestoreOrder, ResumeOrder, RipeEntry, Section, SectionText, SkipOrder, SourceKind, SpreadOrder,
    StopRunning, StoreError, Stream, Successor, Verdict,
};

use super::coverage::headers;
use super::losing::{loss, report, restoring};
use super::recovering::{expired, recovery};
use super::removing::removal;
use super::retrying::retrial;
use super::world::{LEASE, World, claimant, definition, gate, name, queue, run_of, successor, t, token};
use crate::support::redis::TestRedis;

/// Everything the calls below name: job `a` of node n1's file, due at 0, next at 1000; it has run once, at -500.
struct Scene {
    world: World,
    job: JobRecord,
    run: RunId,
    claim: Option<schedd::store::Claim>,
    entry: RipeEntry,
}

/// The state a script is called in.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Planted,
    Claimed,
    Paused,
    Dead,
    EntryAside,
    KeyAside,
    Lost,
    Backfilled,
}

fn stage_of(script: &str) -> Stage {
    match script {
        "finish_run" | "recover_run" | "renew_leases" | "write_output" | "forget_outputs" => Stage::Claimed,
        "resume_job" => Stage::Paused,
        "retry_run" => Stage::Dead,
        "restore_entry" => Stage::EntryAside,
        "restore_key" => Stage::KeyAside,
        "return_run" => Stage::Lost,
        "plant_backfill" | "drop_backfill" => Stage::Backfilled,
        _ => Stage::Planted,
    }
}

async fn scene(redis: TestRedis, namespace: &str, stage: Stage) -> Scene {
    let world = World::on(redis, namespace);
    let order = ApplyOrder { kind: SourceKind::File, source: "n1".to_owned(), ..definition("a", -500) };
    let first = world.plant_as(order).await;
    let claim = world.win_with(-500, &first, Overlap::Skip, 0).await;
    world.at(-499).write_output(&claim, &printed()).await.unwrap();
    world.succeed(-499, &claim).await;
    beat(&world).await.unwrap();
    let run = run_of("a", 0);
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
    if stage == Stage::Paused {
        world.at(0).pause_job(&world.job("a").await).await.unwrap();
    }
    let job = world.job("a").await;
    let entry = RipeEntry { member: run.to_string(), score: t(0).as_i64().to_string() };
    if stage == Stage::EntryAside {
        world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap();
    }
    if stage == Stage::KeyAside {
        let _: i64 = world.raw("HSET", "stops", &["b@5", "x"]);
        world.at(0).quarantine_key("stops", "a test", None).await.unwrap();
    }
    Scene { world, job, run, claim, entry }
}

fn printed() -> OutputFrames {
    let mut frames = OutputFrames::new(0);
    frames.push_head(Stream::Stdout, b"hello");
    frames
}

async fn beat(world: &World) -> Result<(), StoreError> {
    let facts = NodeFacts {
        state: "running",
        started_at: t(0),
        config_error: String::new(),
        host: String::new(),
        pid: 1,
        boot_id: String::new(),
        version: "0",
        running: 0,
        clock_offset_ms: None,
        serving: schedd::domain::serving::Serving::default(),
        held: None,
    };
    let (node, gone_after): (NodeName, _) = ("n1".parse().unwrap(), std::time::Duration::from_secs(30));
    let beat = Beat { node: &node, incarnation: "i1", gone_after, claim: NameClaim::Ask, facts: &facts };
    world.at(0).beat_node(&beat).await.map(|_| ())
}

/// The key a script's header calls `name`, less the namespace; none for the channel, which is no key.
fn key_named(script: &str, name: &str, run: &RunId) -> Option<String> {
    Some(match name {
        "nudge" => return None,
        "backfill" => "backfill:a".to_owned(),
        "run" if script.ends_with("_backfill") => format!("run:{}", backfilled()),
        // Whatever it holds is what is moved.
        "key" if script == "quarantine_key" => return None,
        "key" => "stops".to_owned(),
        "aside" => format!("quarantined:stops:{}", t(0).as_i64()),
        "job" | "open" | "waiting" | "spread" | "ledger" | "ledger_before" | "deeds" => format!("{name}:a"),
        "job_dead" => "dead:a".to_owned(),
        "job_history" => "history:a".to_owned(),
        "job_outputs" => "outputs:a".to_owned(),
        "due" if script == "plant_reboot" => "due:@one".to_owned(),
        "due" | "job_due" | "old_due" | "set" | "place" => "due:default".to_owned(),
        "run" if script == "apply_job" => format!("run:{}", run_of("a", 2000)),
        "run" if matches!(script, "plant_manual" | "plant_reboot") => format!("run:{}", by_hand()),
        "run" if script == "forget_runs" => format!("run:{}", run_of("a", -500)),
        "run" | "pending_run" => format!("run:{run}"),
        "passed_run" => format!("run:{}", run_of("a", 7)),
        "successor_run" | "planted_run" => format!("run:{}", run_of("a", 1000)),
        "output" if script == "forget_outputs" => format!("output:{}#1", run_of("a", -500)),
        "output" => format!("output:{run}#1"),
        "node" if script == "forget_nodes" => "node:n2".to_owned(),
        "source" if script == "forget_nodes" => "source:n2".to_owned(),
        "node" => "node:n1".to_owned(),
        "events" => "events:n1".to_owned(),
        "source" => "source:n1".to_owned(),
        "running" | "queue" | "queue_state" => format!("{name}:default"),
        "settings" => "queue:q".to_owned(),
        "declared" if script == "forget_nodes" => "declared:n2".to_owned(),
        "declared" => "declared:n1".to_owned(),
        "index" => "queues".to_owned(),
        shared => shared.to_owned(),
    })
}

fn stopping() -> EventNote {
    EventNote { event: NodeEvent { what: Befell::Stopped, from: t(5), to: None }, replaces: None }
}

fn backfilled() -> RunId {
    RunId::backfill(name("a"), t(-500))
}

fn by_hand() -> RunId {
    RunId::manual("a".parse().unwrap(), t(0), "x").unwrap()
}

fn spreading(job: &JobRecord, run: &RunId) -> SpreadOrder {
    SpreadOrder {
        name: job.name.clone(),
        rev: job.rev.clone(),
        lane: queue("default"),
        window: None,
        next_window: None,
        runs: vec![Successor { run: run.clone(), ready: t(21_000) }],
        successor: Some(successor("a", 1000)),
    }
}

/// Calls `script` as the engine would; what it answered, in words.
#[allow(clippy::too_many_lines, reason = "an arm a script")]
async fn call(script: &str, scene: &Scene) -> Result<String, StoreError> {
    let Scene { world, job, run, claim, entry } = scene;
    let store = world.at(20_000);
    let claim = || claim.clone().unwrap();
    Ok(match script {
        "apply_job" => {
            let order = ApplyOrder {
                kind: SourceKind::File,
                source: "n1".to_owned(),
                hash: "hash2".to_owned(),
                read: Some((job.rev.clone(), job.lane.clone())),
                planned: job.pending.clone(),
                passed: Some(Stretch { first: t(7), last: t(7), count: 1 }),
                ..definition("a", 2000)
            };
            format!("{:?}", store.apply_job(&order).await?)
        }
        "beat_node" => format!("{:?}", beat(world).await?),
        "cancel_run" => {
            let order = schedd::store::CancelOrder {
                run: run.clone(),
                lane: queue("default"),
                job: Some((job.rev.clone(), job.lane.clone())),
                successor: Some(successor("a", 1000)),
                reason: "x".to_owned(),
            };
            format!("{:?}", store.cancel_run(&order).await?)
        }
        "claim_runs" => {
            let order = schedd::store::ClaimOrder {
                run: run.clone(),
                rev: job.rev.clone(),
                overlap: Overlap::Skip,
                max_age: None,
                latest_start: None,
                max_runs: None,
                successor: Some(successor("a", 1000)),
                job_lane: queue("default"),
                gates: Vec::new(),
                stands_at: Vec::new(),
                per_key: schedd::domain::gate::PerKey::default(),
            };
            match store.claim_runs(&claimant("n1"), &queue("default"), &token(), &[order]).await?.remove(0) {
                ClaimReply::WrongType(error) => return Err(error),
                other => format!("{other:?}"),
            }
        }
        "declare_section" => {
            let text = SectionText::Queue(QueueSettings::default());
            format!(
                "{:?}",
                store.declare_section(&"n1".parse().unwrap(), &Section::Queue("q".parse().unwrap()), Some(&text)).await?
            )
        }
        "begin_epoch" | "report_loss" | "restore_run" | "return_run" => call_after_loss(script, scene).await?,
        "finish_run" => {
            let verdict = Verdict::Final(RunState::Succeeded);
            format!("{:?}", store.finish_run(&claim(), &verdict, "", &[], "").await?)
        }
        "forget_jobs" => format!("{:?}", store.forget_jobs(t(9000), 0).await?),
        "forget_lanes" => format!("{:?}", store.forget_lanes(t(9000)).await?),
        "note_lanes" => {
            let lane: Lane = "q!5".parse().unwrap();
            format!("{:?}", store.note_lanes([&lane]).await?)
        }
        "forget_nodes" => format!("{:?}", store.forget_nodes(&["n2".parse().unwrap()], t(9000)).await?),
        "forget_outputs" => format!("{:?}", store.forget_outputs(None, t(-1), u64::MAX).await?),
        "forget_runs" => format!("{:?}", store.forget_runs(Some(&job.name), t(9000), 0).await?),
        "leave_node" => format!("{:?}", store.leave_node(&"n1".parse().unwrap(), "i1").await?),
        "list_ripe" => {
            let poll = store.list_ripe(&[LaneAsk::new(queue("default"), 5)]).await?;
            match poll.lanes.into_iter().next() {
                Some(LanePoll::WrongType(error)) => return Err(error),
                other => format!("{other:?}"),
            }
        }
        "note_events" => format!("{:?}", store.note_events(&"n1".parse().unwrap(), &[stopping()]).await?),
        "pause_job" => format!("{:?}", store.pause_job(job).await?),
        "drop_backfill" => format!("{:?}", store.drop_backfill(&job.name).await?),
        "plant_backfill" => format!("{:?}", store.plant_backfill(&backfilled(), &queue("default")).await?),
        "queue_backfill" => format!("{:?}", store.queue_backfill(&job.name, &[backfilled()]).await?),
        "plant_manual" => format!("{:?}", store.plant_manual(&by_hand(), &queue("default")).await?),
        "plant_reboot" => format!("{:?}", store.plant_reboot(&by_hand(), &Lane::of_host("one"), "b1").await?),
        "quarantine_run" => format!("{:?}", store.quarantine_run(&queue("default"), entry, "x").await?),
        "recover_run" => format!("{:?}", store.recover_run(&expired(&claim(), 10_000), &recovery(None)).await?),
        "remove_job" => {
            let order = RemoveOrder { kind: SourceKind::File, source: "n1".to_owned(), ..removal(job, StopRunning::Yes) };
            format!("{:?}", store.remove_job(&order).await?)
        }
        "renew_leases" => format!("{:?}", store.renew_leases(LEASE, &[(run.clone(), claim().fence)]).await?),
        "resume_job" => {
            let order = ResumeOrder {
                name: job.name.clone(),
                rev: job.rev.clone(),
                lane: job.lane.clone(),
                held: job.held.clone(),
                skipped: Some((t(0), 1)),
                planted: Some(successor("a", 1000)),
            };
            format!("{:?}", store.resume_job(&order).await?)
        }
        "retry_run" => format!("{:?}", store.retry_run(&retrial(&claim(), job)).await?),
        "skip_run" => {
            let order = SkipOrder {
                run: run.clone(),
                rev: job.rev.clone(),
                lane: queue("default"),
                reason: "missed",
                last_due: t(0),
                count: 1,
                successor: Some(successor("a", 1000)),
            };
            format!("{:?}", store.skip_run(&order).await?)
        }
        "spread_runs" => format!("{:?}", store.spread_runs(&spreading(job, run)).await?),
        "write_output" => format!("{:?}", store.write_output(&claim(), &printed()).await?),
        books => call_on_the_books(books, scene).await?,
    })
}

/// The same of the scripts that check, mend and put aside.
async fn call_on_the_books(script: &str, scene: &Scene) -> Result<String, StoreError> {
    let Scene { world, job, run, .. } = scene;
    let store = world.at(20_000);
    Ok(match script {
        "inspect_job" => {
            let to_inspect = JobToInspect { name: &job.name, record: Some(job), plan: Plan::Nothing };
            format!("{:?}", store.inspect_jobs(&[to_inspect], &[queue("default")]).await?.remove(0)?)
        }
        "inspect_runs" => format!("{:?}", store.inspect_runs(&[(run.clone(), None)], &[queue("default")]).await?.remove(0)?),
        "mend_gate" => format!("{}", store.mend_gate(&gate("key:k"), std::slice::from_ref(run)).await?),
        "open_gate" => format!("{:?}", store.open_gate(&gate("key:k"), &[queue("default")]).await?),
        "mend_counts" => format!("{:?}", store.mend_counts(&CountFacts::default()).await?),
        "mend_job" => {
            let mending = JobMending { planted: Some(successor("a", 1000)), has_manual_out: false };
            format!("{:?}", store.mend_job(&job.name, Some(job), &[queue("default")], &mending).await?)
        }
        "mend_run" => format!("{:?}", store.mend_run(run, &queue("default"), &[queue("default")], None).await?),
        "quarantine_key" => format!("{:?}", world.at(0).quarantine_key("output_bytes", "a test", Some("a")).await?),
        "restore_entry" => {
            let entry = store.read_quarantined(&run.to_string()).await?.unwrap();
            format!("{:?}", store.restore(&entry).await?)
        }
        "restore_key" => {
            let entry = store.read_quarantined(&format!("quarantined:stops:{}", t(0).as_i64())).await?.unwrap();
            format!("{:?}", store.restore(&entry).await?)
        }
        "take_audit" => format!("{:?}", store.take_audit(&"n1".parse().unwrap(), LEASE).await?),
        other => panic!("no call of {other}"),
    })
}

/// The same for what gives back what was lost.
async fn call_after_loss(script: &str, Scene { world, job, run, claim, .. }: &Scene) -> Result<String, StoreError> {
    let store = world.at(20_000);
    Ok(match script {
        "begin_epoch" => {
            format!("{:?}", store.begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), 9, LEASE).await?)
        }
        "report_loss" => format!("{:?}", store.report_loss(&report(""), 9).await?),
        "restore_run" => {
            let planned = Some((job.rev.clone(), Some(successor("a", 1000))));
            let order = RestoreOrder { planned, ..restoring(run, "", 9_000_000_000_000_000) };
            format!("{:?}", store.restore_runs(&[order]).await?.remove(0)?)
        }
        _ => format!("{:?}", store.return_run(claim.as_ref().unwrap(), "0-n1-a", "x").await?),
    })
}

/// Keys of which a script only asks whether they are there, and those of many items at which a bad one is passed over.
fn is_only_passed_over(script: &str, name: &str) -> bool {
    // A mark that is spoilt must not stop what it only marks.
    matches!((script, name), ("list_ripe", "epoch" | "fence" | "settling" | "gate_wakes"))
        || matches!(name, "successor_run" | "planted_run")
        || matches!(
            (script, name),
            (
                "forget_jobs",
                "totals"
                    | "shunned"
                    | "shunned_lately"
                    | "job"
                    | "open"
                    | "waiting"
                    | "spread"
                    | "ledger"
                    | "ledger_before"
                    | "deeds"
            ) | ("forget_runs", "run" | "job" | "job_history" | "job_dead" | "ledger" | "ledger_before")
        )
        || matches!(
            (script, name),
            ("queue_backfill", "run") | ("forget_lanes", "due") | ("forget_nodes", "node" | "source" | "declared")
        )
        || matches!(
            (script, name),
            ("forget_outputs", "output" | "job_outputs")
                | ("quarantine_key", "aside" | "source")
                | ("restore_key", "aside" | "key")
        )
}

#[tokio::test]
async fn every_script_tells_each_of_its_keys_that_holds_something_else_and_changes_nothing() {
    let mut redis = TestRedis::start();
    let mut cases = 0;
    for header in headers() {
        let script = header.script.as_str();
        for name in &header.keys {
            let namespace = format!("w{cases}");
            let scene = scene(redis, &namespace, stage_of(script)).await;
            if let Some(key) = key_named(script, name, &scene.run) {
                let _: i64 = scene.world.raw("DEL", &key, &[]);
                let _: i64 = scene.world.raw("RPUSH", &key, &["not ours"]);
                let before = scene.world.snapshot();
                let answer = call(script, &scene).await;
                if is_only_passed_over(script, name) {
                    assert!(answer.is_ok() || matches!(answer, Err(StoreError::WrongType { .. })), "{script} {name}: {answer:?}");
                    assert_eq!(scene.world.raw::<String>("LINDEX", &key, &["0"]), "not ours", "{script} {name}");
                } else {
                    let Err(StoreError::WrongType { key: told, .. }) = answer else { panic!("{script} {name}: {answer:?}") };
                    assert_eq!(told, scene.world.key(&key), "{script} {name}");
                    assert_eq!(scene.world.snapshot(), before, "{script} {name}");
                }
                cases += 1;
            }
            redis = scene.world.redis;
            let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
        }
    }
    assert!(cases > 100, "only {cases} cases");
}

#[tokio::test]
async fn every_call_made_above_does_its_work_when_no_key_is_spoilt() {
    let mut redis = TestRedis::start();
    for header in headers() {
        let scene = scene(redis, "w", stage_of(&header.script)).await;
        let before = scene.world.snapshot();
        let answer = call(&header.script, &scene).await.unwrap();
        // A call that changes nothing in a sound world would pass the test above whatever it does.
        let is_reading = matches!(
            header.script.as_str(),
            "list_ripe"
                | "forget_jobs"
                | "beat_node"
                | "inspect_job"
                | "inspect_runs"
                | "mend_counts"
                | "mend_job"
                | "mend_run"
                | "open_gate"
        );
        assert_eq!(scene.world.snapshot() == before, is_reading, "{}: {answer}", header.script);
        // What is put aside here is a job's pending run, which is what no sound world has to put aside.
        if header.script != "quarantine_run" {
            scene.world.assert_sound();
        }
        redis = scene.world.redis;
        let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    }
}
