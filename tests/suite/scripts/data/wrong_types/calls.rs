//! One call of each script, in a world where it has something to do.

use schedd_core::domain::consistency::{ChainPlaces, CountFacts, PlannedRun, RunPlace};
use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::job::unique_rule::Second;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::{QueueChange, QueueKey, QueueSettings};
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ClaimReply, EventNote, JobMending, JobRecord, JobToInspect, LaneAsk, LanePoll,
    LedgerRange, MarkSuccessor, NoticeOrder, PlainEnd, QueueSwitch, RemoveOrder, RestoreOrder,
    ResumeOrder, RunDeadline, Searched, Section, SectionText, SkipOrder, SourceKind, SpreadOrder,
    StopRunning, StoreError, Successor, Takers, Verdict,
};

use super::scene::{Scene, backfilled, beat, by_hand, printed};
use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::data::losing::{loss, report, restoring};
use crate::scripts::jobs::removing::removal;
use crate::scripts::jobs::retrying::retrial;
use crate::scripts::jobs::uniques::only;
use crate::scripts::world::{
    LEASE, claimant, definition, gate, queue, successor, t, token, version,
};

fn stopping() -> EventNote {
    EventNote {
        event: NodeEvent { what: NodeEventKind::Stopped, from: t(5), to: None },
        replaces: None,
    }
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
pub(super) async fn call(script: &str, scene: &Scene) -> Result<String, StoreError> {
    let Scene { world, job, run, claim, entry, notice, chain_end } = scene;
    let store = world.at(20_000);
    let claim = || claim.clone().unwrap();
    Ok(match script {
        "add_jobs" => {
            let order = definition("new", 2000);
            let is_added = store.add_jobs(std::slice::from_ref(&order)).await?[0];
            // The answer to a job that was not added comes from `apply_job`.
            if is_added { String::new() } else { format!("{:?}", store.apply_job(&order).await?) }
        }
        "apply_job" => {
            let order = ApplyOrder {
                kind: SourceKind::File,
                source: "n1".to_owned(),
                definition: version("v2"),
                read: Some((job.rev.clone(), job.lane.clone())),
                planned: job.pending.clone(),
                passed: Some(SkippedRange { first: t(7), last: t(7), count: 1 }),
                unique: only("a", 2000, Second::Wins { max_wait: None }, Some("h")).unique,
                old_key: Some("o".parse().unwrap()),
                ..definition("a", 2000)
            };
            format!("{:?}", store.apply_job(&order).await?)
        }
        "beat_node" => format!("{:?}", beat(world).await?),
        "cancel_run" => {
            let order = schedd_store::CancelOrder {
                run: run.clone(),
                lane: queue("default"),
                job: Some((job.rev.clone(), job.lane.clone())),
                successor: Some(successor("a", 1000)),
                reason: "x".to_owned(),
            };
            format!("{:?}", store.cancel_run(&order).await?)
        }
        "claim_plain_runs" | "claim_runs" => {
            let order = schedd_store::ClaimOrder {
                max_caught_up: None,
                run: run.clone(),
                rev: job.rev.clone(),
                delivery: Delivery::AtLeastOnce,
                overlap: Overlap::Skip,
                // A run with this rule is not plain.
                max_age: (script == "claim_runs").then_some(LEASE),
                latest_start: None,
                max_runs: None,
                successor: Some(successor("a", 1000)),
                job_lane: queue("default"),
                gates: Vec::new(),
                known_places: Vec::new(),
                per_key: schedd_core::domain::queue::gate::PerKey::default(),
            };
            match store
                .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &[order])
                .await?
                .remove(0)
            {
                ClaimReply::WrongType(error) => return Err(error),
                other => format!("{other:?}"),
            }
        }
        "declare_section" => {
            let text = SectionText::Queue(QueueSettings::default());
            format!(
                "{:?}",
                store
                    .declare_section(
                        &"n1".parse().unwrap(),
                        &Section::Queue("q".parse().unwrap()),
                        Some(&text)
                    )
                    .await?
            )
        }
        "set_queue" => {
            let settings = QueueSettings { limit: Some(5), ..QueueSettings::default() };
            let change = QueueChange { settings, named: [QueueKey::Limit].into() };
            format!("{:?}", store.set_queue(&"default".parse().unwrap(), &change).await?)
        }
        "switch_queue" => format!(
            "{:?}",
            store.switch_queue(&"default".parse().unwrap(), QueueSwitch::Pause).await?
        ),
        "begin_epoch" | "report_loss" | "restore_run" | "return_run" => {
            call_after_loss(script, scene).await?
        }
        "finish_plain_runs" => {
            let end = PlainEnd { claim: claim(), reason: String::new(), facts: Vec::new() };
            let queue = "default".parse().unwrap();
            if let Some(kept) = store.finish_plain_runs(&queue, &[end]).await?[0] {
                kept.to_string()
            } else {
                let verdict = Verdict::Final(RunState::Succeeded);
                format!("{:?}", store.finish_run(&claim(), &verdict, "", &[], "").await?)
            }
        }
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
        "forget_nodes" => {
            format!("{:?}", store.forget_nodes(&["n2".parse().unwrap()], t(9000)).await?)
        }
        "forget_outputs" => format!("{:?}", store.forget_outputs(None, t(-1), u64::MAX).await?),
        "forget_runs" => format!("{:?}", store.forget_runs(Some(&job.name), t(9000), 0).await?),
        "forget_uniques" => format!("{:?}", store.forget_uniques(&["k".parse().unwrap()]).await?),
        "leave_node" => format!("{:?}", store.leave_node(&"n1".parse().unwrap(), "i1").await?),
        "list_job_gates" => {
            format!("{:?}", store.list_job_gates(&queue("default"), None, 5, 5).await?)
        }
        "unlist_job_gates" => {
            let entry = (job.name.clone(), "default key:k a".to_owned());
            format!("{:?}", store.unlist_job_gates(&[entry]).await?)
        }
        "list_behind" => format!("{:?}", store.list_behind(&queue("default"), None, 5).await?),
        "read_page" => {
            let start = schedd_store::IndexCursor::lowest();
            let jobs = store.page_of_jobs(schedd_store::JobIndex::Defined, &start, 5).await?;
            format!("{jobs:?}")
        }
        "list_due" => {
            let poll = store.list_due(&[LaneAsk::new(queue("default"), 5)]).await?;
            match poll.lanes.into_iter().next() {
                Some(LanePoll::WrongType(error)) => return Err(error),
                other => format!("{other:?}"),
            }
        }
        "replace_mark" => {
            let answer = MarkSuccessor::Answer("answer");
            format!("{:?}", store.replace_mark("x", "mark", answer).await?)
        }
        "record_server" => format!("{:?}", store.record_server("a/b").await?),
        "note_backlog" => {
            format!("{:?}", store.note_backlog(&"default".parse().unwrap()).await?)
        }
        "note_events" => {
            format!("{:?}", store.note_events(&"n1".parse().unwrap(), &[stopping()]).await?)
        }
        "pause_job" => format!("{:?}", store.pause_job(job, None, &[]).await?),
        "set_next" => {
            format!("{:?}", store.set_next(job, t(500), &by_hand(), None, None).await?)
        }
        "drop_backfill" => format!("{:?}", store.drop_backfill(&job.name).await?),
        "plant_backfill" => {
            format!("{:?}", store.plant_backfill(&backfilled(), &queue("default")).await?)
        }
        "queue_backfill" => {
            format!("{:?}", store.queue_backfill(&job.name, &[backfilled()]).await?)
        }
        "plant_manual" => {
            format!("{:?}", store.plant_manual(&by_hand(), &queue("default"), None).await?)
        }
        "plant_child" => {
            let end = chain_end.as_ref().unwrap();
            let mut replies = store.plant_children(&[(end, Lane::default_lane())]).await?;
            format!("{:?}", replies.remove(0)?)
        }
        "repair_chain" => {
            let facts = ChainPlaces {
                name: job.name.clone(),
                wanted: "after b".to_owned(),
                stored: String::new(),
                listed: [].into(),
                strays: vec![run.clone()],
                lost_ends: Vec::new(),
            };
            format!("{:?}", store.repair_chain(Some(job), &facts).await?)
        }
        "plant_notice" => {
            let order = NoticeOrder { definition: Some("{}".to_owned()), tz: "UTC".to_owned() };
            format!("{:?}", store.plant_notice(notice.as_ref().unwrap(), &order).await?)
        }
        "watch_run" => format!("{:?}", store.watch_run(run).await?),
        "judge_deadline" => {
            let deadline = RunDeadline {
                run: run.clone(),
                kind: schedd_core::domain::job::notice::Deadline::Start,
                at: t(0),
            };
            format!("{:?}", store.judge_deadline(&deadline).await?)
        }
        "pull_scores_back" => {
            format!("{}", world.at(-600).pull_scores_back(&[job.name.clone()].into()).await?)
        }
        "plant_reboot" => {
            format!("{:?}", store.plant_reboot(&by_hand(), &Lane::of_host("one"), "b1").await?)
        }
        "quarantine_run" => {
            format!("{:?}", store.quarantine_run(&queue("default"), entry, "x").await?)
        }
        "recover_run" => {
            format!("{:?}", store.recover_run(&expired(&claim(), 10_000), &recovery(None)).await?)
        }
        "remove_job" => {
            let order = RemoveOrder {
                kind: SourceKind::File,
                source: "n1".to_owned(),
                ..removal(job, StopRunning::Yes)
            };
            let passed = (Some(SkippedRange { first: t(7), last: t(7), count: 1 }), None);
            let order = RemoveOrder { unique: Some("o".parse().unwrap()), passed, ..order };
            format!("{:?}", store.remove_job(&order).await?)
        }
        "renew_leases" => {
            format!("{:?}", store.renew_leases(LEASE, &[(run.clone(), claim().fence)]).await?)
        }
        "renew_leases_in_move" => {
            format!("{:?}", store.renew_in_move(LEASE, &[(run.clone(), claim().fence)]).await?)
        }
        "resume_job" => {
            let order = ResumeOrder {
                name: job.name.clone(),
                rev: job.rev.clone(),
                lane: job.lane.clone(),
                paused_run: job.paused_run.clone(),
                skipped: Some(SkippedRange { first: t(0), last: t(0), count: 1 }),
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
        "note_progress" => {
            let progress = RunProgress::new(Some(40), "half");
            format!("{:?}", store.note_progress(&claim(), &progress).await?)
        }
        "write_output" => format!("{:?}", store.write_output(&claim(), &printed()).await?),
        other => call_on_the_records(other, scene).await?,
    })
}

/// The same of the scripts that check, mend and put aside.
async fn call_on_the_records(script: &str, scene: &Scene) -> Result<String, StoreError> {
    let Scene { world, job, run, .. } = scene;
    let store = world.at(20_000);
    Ok(match script {
        "inspect_job" => {
            let to_inspect = JobToInspect {
                name: &job.name,
                record: Some(job),
                plan: PlannedRun::Nothing,
                gated: None,
            };
            format!("{:?}", store.inspect_jobs(&[to_inspect], Searched::Own).await?.remove(0)?)
        }
        "inspect_runs" => format!(
            "{:?}",
            store.inspect_runs(&[(run.clone(), None)], &[queue("default")]).await?.remove(0)?
        ),
        "repair_gate" => {
            format!("{}", store.repair_gate(&gate("key:k"), std::slice::from_ref(run)).await?)
        }
        "open_gate" => format!(
            "{:?}",
            store.open_gate(&gate("key:k"), &[queue("default")], &mut Takers::default()).await?
        ),
        "drop_fields" => {
            let seen = [("a@5".to_owned(), "x".to_owned())];
            format!("{:?}", store.drop_fields(&world.key("stop_requests"), &seen).await?)
        }
        "repair_counts" => format!("{:?}", store.repair_counts(&CountFacts::default()).await?),
        "repair_job" => {
            let name = job.name.clone();
            let record = Some(JobRecord { unique: Some("k".parse().unwrap()), ..job.clone() });
            let mending = JobMending {
                name,
                record,
                planted: Some(successor("a", 1000)),
                pending_ready: None,
                gated: None,
                anchor: None,
                unique: None,
            };
            format!("{:?}", store.mend_jobs(&[mending], &[queue("default")]).await?.remove(0)?)
        }
        "repair_skipped_range" => {
            let skipped_range = SkippedRange { first: t(0), last: t(1000), count: 2 };
            format!(
                "{:?}",
                store
                    .repair_skipped_range(
                        run,
                        skipped_range,
                        SkippedRange { last: t(0), count: 1, ..skipped_range }
                    )
                    .await?
            )
        }
        "repair_ledger_range" => {
            let range = LedgerRange {
                from: t(0),
                to: t(1000),
                count: 2,
                state: RunState::Skipped,
                reason: None,
            };
            format!("{:?}", store.repair_ledger_range(run, &range, None).await?)
        }
        "repair_run" => {
            let mut facts =
                store.inspect_runs(&[(run.clone(), None)], &[queue("default")]).await?.remove(0)?;
            // An entry that is not there, so that there is something to mend.
            facts.places.insert(RunPlace::Dead, Some("5".to_owned()));
            format!("{:?}", store.mend_runs(&[facts]).await?.remove(0)?)
        }
        "quarantine_key" => {
            format!("{:?}", world.at(0).quarantine_key("output_bytes", "a test", Some("a")).await?)
        }
        "discard_entries" => {
            let entries = store.list_quarantine(10).await?.1;
            format!("{:?}", store.discard(&entries, None).await?)
        }
        "restore_entry" => {
            let entry = store.read_quarantined(&run.to_string()).await?.unwrap();
            format!("{:?}", store.restore(&entry).await?)
        }
        "restore_key" => {
            let entry = store
                .read_quarantined(&format!("quarantined:stop_requests:{}", t(0).as_i64()))
                .await?
                .unwrap();
            format!("{:?}", store.restore(&entry).await?)
        }
        "take_check_turn" => {
            format!("{:?}", store.take_check_turn(&"n1".parse().unwrap(), LEASE).await?)
        }
        other => panic!("no call of {other}"),
    })
}

/// The same for what gives back what was lost.
async fn call_after_loss(
    script: &str,
    Scene { world, job, run, claim, .. }: &Scene,
) -> Result<String, StoreError> {
    let store = world.at(20_000);
    Ok(match script {
        "begin_epoch" => {
            format!(
                "{:?}",
                store.begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), 9, LEASE).await?
            )
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
