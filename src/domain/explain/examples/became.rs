//! What became of it.

use std::time::Duration;

use super::scene::{
    about, ana, asked_in_vain, attempt, deed, done_by_ana, ended, facts, flush, fresh, gate, missed_since, node, s, started,
    the_job,
};
use super::{Example, hold};
use crate::domain::deed::Deed;
use crate::domain::explain::became::Became;
use crate::domain::explain::{AtGate, AttemptFacts, Facts, NodeFacts, Passed, Place, RunFacts, Subject};
use crate::domain::group::Shut;
use crate::domain::ids::RunId;
use crate::domain::lane::Lane;
use crate::domain::run::RunState;
use crate::domain::serving::{Serving, Unserved};

const BECAME: &[Example] = &[
    ("attempt", || about(started(0)), "Attempt 1 on n1 started Sat 2026-11-21 12:00:00 UTC, ended after 5s: succeeded."),
    (
        "attempt",
        || {
            let lost = AttemptFacts { is_end_known: false, ..attempt(Some("its node was lost while it ran")) };
            about(RunFacts { first_start: Some(s(0)), attempts: vec![lost], ..ended(RunState::Lost, None) })
        },
        "Attempt 1 on n1 started Sat 2026-11-21 12:00:00 UTC; how it ended is not known: its node was lost while it ran.",
    ),
    (
        "attempt",
        || about(RunFacts { attempts: vec![attempt(None)], state: RunState::Running, first_start: Some(s(0)), ..fresh() }),
        "Attempt 1 on n1 started Sat 2026-11-21 12:00:00 UTC and is running.",
    ),
    (
        "handed_back",
        || about(RunFacts { handed_back: Some("shutdown".to_owned()), ..started(0) }),
        "A node had claimed it and handed it back unexecuted: shutdown.",
    ),
    (
        "retried",
        || done_by_ana(Deed::RUN_RETRIED, 60, about(started(0))),
        "It was tried again by ana@h1 on Sat 2026-11-21 12:01:00 UTC.",
    ),
    ("succeeded", || about(started(0)), "It succeeded on Sat 2026-11-21 12:00:05 UTC."),
    (
        "already_done",
        || about(RunFacts { reason: Some("done_check: already done".to_owned()), ..started(0) }),
        "It succeeded: its done_check said that the work was already done.",
    ),
    ("failed", || about(ended(RunState::Failed, None)), "It failed."),
    ("failed", || about(ended(RunState::Failed, Some("poison"))), "It failed: poison."),
    ("timed_out", || about(ended(RunState::TimedOut, None)), "It took longer than its timeout and was stopped."),
    (
        "lost",
        || about(ended(RunState::Lost, Some("its node was lost while it ran"))),
        "It is lost, for it may or may not have done its work: its node was lost while it ran.",
    ),
    ("lost", || about(ended(RunState::Lost, None)), "It is lost: it may or may not have done its work."),
    (
        "cancelled",
        || about(RunFacts { by: Some(ana()), ..ended(RunState::Cancelled, Some("cancelled")) }),
        "It was cancelled by ana@h1 on Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "cancelled",
        || about(ended(RunState::Cancelled, Some("cancelled"))),
        "It was cancelled on Sat 2026-11-21 12:00:05 UTC; by whom is not known.",
    ),
    (
        "replaced",
        || about(ended(RunState::Cancelled, Some("replaced"))),
        "It was stopped because the next run of its job took its place.",
    ),
    (
        "removed_with_job",
        || about(RunFacts { by: Some(ana()), ..ended(RunState::Cancelled, Some("removed")) }),
        "It ended because its job was removed by ana@h1.",
    ),
    (
        "of_earlier_job",
        || about(ended(RunState::Cancelled, Some("of an earlier job of this name"))),
        "It was cancelled because it belongs to an earlier job of this name.",
    ),
    (
        "skipped_overlap",
        || about(RunFacts { behind: Some("j@5".parse().unwrap()), ..ended(RunState::Skipped, Some("overlap")) }),
        "It was skipped because the run j@5 was still open.",
    ),
    (
        "skipped_overlap",
        || about(ended(RunState::Skipped, Some("overlap"))),
        "It was skipped because an earlier run was still open.",
    ),
    (
        "skipped_used_up",
        || about(ended(RunState::Skipped, Some("max_runs"))),
        "It was skipped because as many runs had begun as max_runs lets.",
    ),
    (
        "skipped_missed",
        || about(ended(RunState::Skipped, Some("missed"))),
        "It was skipped because it was missed: it could not be started in time.",
    ),
    (
        "skipped_paused",
        || done_by_ana(Deed::PAUSED, -60, about(ended(RunState::Skipped, Some("paused")))),
        "It was skipped because its job was paused by ana@h1 on Sat 2026-11-21 11:59:00 UTC.",
    ),
    ("skipped_paused", || about(ended(RunState::Skipped, Some("paused"))), "It was skipped because its job was paused."),
    ("skipped", || about(ended(RunState::Skipped, Some("calendar"))), "It was skipped: calendar."),
    (
        "in_stretch",
        || {
            let run = RunFacts { skipped: Some((s(120), 3)), ..ended(RunState::Skipped, Some("missed")) };
            facts(Subject::Stretch { at: s(60), run: Box::new(run) })
        },
        "So were all 3 occurrences from Sat 2026-11-21 12:00:00 UTC to Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "in_stretch",
        || {
            let run = RunFacts { skipped: Some((s(120), 100_001)), ..ended(RunState::Skipped, Some("missed")) };
            facts(Subject::Stretch { at: s(60), run: Box::new(run) })
        },
        "So were more than 100,000 occurrences from Sat 2026-11-21 12:00:00 UTC to Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "running",
        || about(RunFacts { attempts: vec![attempt(None)], state: RunState::Running, first_start: Some(s(0)), ..fresh() }),
        "It is running on n1 since Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "running_unseen",
        || {
            let node = NodeFacts { last_seen: Some(s(30)), ..node("n1", &[]) };
            let run = RunFacts { attempts: vec![attempt(None)], state: RunState::Running, first_start: Some(s(0)), ..fresh() };
            Facts { nodes: vec![node], ..about(run) }
        },
        "It was running on n1, which was last seen on Sat 2026-11-21 12:00:30 UTC; it is taken back when its lease is over.",
    ),
    (
        "asked_to_stop",
        || {
            let attempts = vec![attempt(None)];
            about(RunFacts { attempts, state: RunState::Running, is_asked_to_stop: true, by: Some(ana()), ..fresh() })
        },
        "It is asked to stop by ana@h1.",
    ),
    (
        "waits",
        || about(RunFacts { place: Place::Waiting, behind: Some("j@5".parse().unwrap()), ..fresh() }),
        "It waits for the run j@5 to end.",
    ),
    (
        "waits_at",
        || {
            let gate = AtGate { turn: Some("b".to_owned()), ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night, behind k@5 when it came; it is the turn of b.",
    ),
    (
        "waits_at",
        || {
            let holder = Some(("l@6".parse().unwrap(), true));
            let gate = AtGate { holder, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night, behind l@6.",
    ),
    (
        "waits_at",
        || {
            let holder = Some(("l@6".parse().unwrap(), false));
            let gate = AtGate { holder, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night, behind l@6, which was let in and has not begun.",
    ),
    (
        "waits_at",
        || {
            let (holder, hindrance) = (Some(("l@6".parse().unwrap(), false)), Some("its queue q is paused by ana@h1".to_owned()));
            let gate = AtGate { holder, hindrance, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at group night, behind l@6, which was let in and has not begun: its queue q is paused by ana@h1.",
    ),
    (
        "waits_at",
        || {
            let (stuck, hindrance) = (Some(("l@6".parse().unwrap(), s(60))), Some("its queue q is paused by ana@h1".to_owned()));
            let gate = AtGate { stuck, hindrance, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night, behind l@6 of its queue, which was let in and did not begin: its queue q is paused by ana@h1; the next is tried on Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "waits_at",
        || {
            let rate = Some(("1/1h".parse().unwrap(), s(3_600)));
            let gate = AtGate { rate, ..gate("key k") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at key k; its rate of 1/1h lets one more begin on Sat 2026-11-21 13:00:00 UTC.",
    ),
    (
        "waits_at",
        || {
            let shut = Shut { gap: Some((Duration::from_secs(300), s(300))), patience: None };
            let gate = AtGate { turn: Some("j".to_owned()), shut, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..fresh() })
        },
        "It waits for its place at group night; its gap of 5m ends on Sat 2026-11-21 12:05:00 UTC; it is the turn of j.",
    ),
    (
        "waits_at",
        || {
            let shut = Shut { gap: None, patience: Some((Duration::from_secs(60), s(60))) };
            let gate = AtGate { turn: Some("b".to_owned()), shut, ..gate("group night") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at group night; it is the turn of b, which has no waiting run: its patience of 1m ends on Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "waits_at",
        || {
            let holder = Some(("l@6".parse().unwrap(), true));
            let lane: Lane = "default+gpu".parse().unwrap();
            let unserved = Unserved::of(&lane, &[Serving::default()]).map(|why| (lane, why));
            let gate = AtGate { holder, unserved, ..gate("key k") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at key k, behind l@6. Nobody takes runs of its lane default+gpu: requires gpu: no running node that serves its queue has it.",
    ),
    (
        "waits_at",
        || {
            let holder = Some(("l@6".parse().unwrap(), true));
            let gate = AtGate { holder, passed_over: vec!["default+gpu".parse().unwrap()], ..gate("key k") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at key k, behind l@6. Runs of lane default+gpu stand before it there; no node serves that lane, and it passes them.",
    ),
    (
        "waits_at",
        || {
            let passed_over = ["a", "b", "c+gpu", "d", "e"].iter().map(|lane| lane.parse().unwrap()).collect();
            let gate = AtGate { passed_over, ..gate("key k") };
            about(RunFacts { place: Place::AtGate, gate: Some(gate), ..fresh() })
        },
        "It waits for its place at key k. Runs of lanes a, b, c+gpu and 2 more stand before it there; no node serves those lanes, and it passes them.",
    ),
    (
        "let_in",
        || {
            let passed = Passed { gate: "group night".to_owned(), since: Some(s(5)), holder: None, unserved: None };
            about(RunFacts { passed: Some(passed), ready: Some(s(5)), ..fresh() })
        },
        "It was let in at group night on Sat 2026-11-21 12:00:05 UTC, and has not begun: no node has claimed it yet.",
    ),
    (
        "gave_up_place",
        || {
            let holder = Some(("l@6".parse().unwrap(), true));
            let passed = Passed { gate: "group night".to_owned(), since: None, holder, unserved: None };
            about(RunFacts { passed: Some(passed), ready: Some(s(5)), ..fresh() })
        },
        "It was let in at group night, did not begin while others waited, and gave its place up; l@6 has it now. It is ready since Sat 2026-11-21 12:00:05 UTC, and needs a place anew when a node can claim it.",
    ),
    (
        "gave_up_place",
        || {
            let holder = Some(("l@6".parse().unwrap(), false));
            let passed = Passed { gate: "group night".to_owned(), since: None, holder, unserved: None };
            about(RunFacts { passed: Some(passed), ready: Some(s(5)), ..fresh() })
        },
        "It was let in at group night, did not begin while others waited, and gave its place up; l@6 was let in after it and has not begun. It is ready since Sat 2026-11-21 12:00:05 UTC, and needs a place anew when a node can claim it.",
    ),
    (
        "gave_up_place",
        || {
            let (holder, unserved) = (Some(("l@6".parse().unwrap(), true)), Some("default+gpu".parse().unwrap()));
            let passed = Passed { gate: "key k".to_owned(), since: None, holder, unserved };
            about(RunFacts { passed: Some(passed), ready: Some(s(5)), ..fresh() })
        },
        "No node serves its lane default+gpu, and others pass it at key k; l@6 has it now. It is ready since Sat 2026-11-21 12:00:05 UTC, and needs a place there when a node can claim it.",
    ),
    ("waits", || about(RunFacts { place: Place::Waiting, ..fresh() }), "It waits for an open run of its job to end."),
    (
        "retry_at",
        || {
            about(RunFacts {
                attempts: vec![attempt(Some("exit code 3"))],
                first_start: Some(s(0)),
                ready: Some(s(960)),
                ..fresh()
            })
        },
        "It is tried again on Sat 2026-11-21 12:16:00 UTC.",
    ),
    (
        "ask_at",
        || about(RunFacts { reason: Some("done_check unclear: exit code 2".to_owned()), ready: Some(s(960)), ..fresh() }),
        "Nothing was started, done_check unclear: exit code 2; it is asked again on Sat 2026-11-21 12:16:00 UTC.",
    ),
    (
        "spread_to",
        || about(RunFacts { is_spread: true, ready: Some(s(960)), ..fresh() }),
        "It was missed, and is to start on Sat 2026-11-21 12:16:00 UTC so that not all start at once.",
    ),
    ("to_make_up", || facts(Subject::ToMakeUp { at: s(-60) }), "It waits to be made up for, as schedctl backfill asked."),
    (
        "made_up_by",
        || Facts {
            made_up_by: Some((RunId::backfill("j".parse().unwrap(), s(0)), RunState::Succeeded)),
            ..about(ended(RunState::Skipped, Some("missed")))
        },
        "j@1795262400000~backfill makes up for it, as schedctl backfill asked: succeeded.",
    ),
    (
        "made_up_dropped",
        || {
            let dropped = Deed { dues: Some((s(-60), s(60))), ..deed(Deed::BACKFILL_DROPPED, 90) };
            Facts { deeds: vec![dropped], ..about(ended(RunState::Skipped, Some("missed"))) }
        },
        "It was to be made up for; that was given up by ana@h1 on Sat 2026-11-21 12:01:30 UTC.",
    ),
    (
        "asked_in_vain",
        || about(asked_in_vain()),
        "It is lost, and this time nothing was started: done_check unclear 4 times in a row: exit code 9; whether its work is done is not known.",
    ),
    ("held", || about(RunFacts { place: Place::Held, ..fresh() }), "The pause of its job holds it."),
    ("to_come", || facts(Subject::ToCome { at: s(1020) }), "It is still to come, on Sat 2026-11-21 12:17:00 UTC."),
    ("owed", || about(fresh()), "It is owed: ready since Sat 2026-11-21 12:00:00 UTC, and no node has claimed it yet."),
    (
        "behind_owed",
        || facts(Subject::Behind { at: s(60), run: Box::new(fresh()) }),
        "It has not been dealt with yet: the run due Sat 2026-11-21 12:00:00 UTC is still owed.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("skipped".to_owned(), "overlap".to_owned());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 3, is_sure: true })
        },
        "It ended skipped (overlap); its record is no longer kept. So did 3 runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("skipped".to_owned(), "missed".to_owned());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(60), last: s(60), count: 1, is_sure: true })
        },
        "It ended skipped (missed); its record is no longer kept, nor is what kept it from starting.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("skipped".to_owned(), "missed".to_owned());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 3, is_sure: true })
        },
        "It ended skipped (missed); its record is no longer kept, nor is what kept it from starting. So did 3 runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("timed_out".to_owned(), String::new());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(60), last: s(60), count: 1, is_sure: true })
        },
        "It ended timed out; its record is no longer kept.",
    ),
    (
        "trimmed",
        || {
            let (state, reason) = ("skipped".to_owned(), "paused".to_owned());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 100_000, is_sure: true })
        },
        "It ended skipped (paused); its record is no longer kept. So did at least 100,000 runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC.",
    ),
    (
        "perhaps_trimmed",
        || {
            let (state, reason) = ("succeeded".to_owned(), String::new());
            facts(Subject::Ledger { at: s(60), state, reason, first: s(0), last: s(120), count: 2, is_sure: false })
        },
        "Of the runs due between Sat 2026-11-21 12:00:00 UTC and Sat 2026-11-21 12:02:00 UTC 2 ended succeeded; whether one was due then, and was among them, is no longer known.",
    ),
    (
        "counted",
        || {
            let counts = vec![("failed".to_owned(), 2), ("succeeded".to_owned(), 40)];
            facts(Subject::BeforeLedger { at: s(0), counts, until: s(60) })
        },
        "It is older than what is kept; of the runs due up to Sat 2026-11-21 12:01:00 UTC only counts are left: 2 failed, 40 succeeded.",
    ),
    (
        "unrecorded",
        || facts(Subject::Unrecorded { at: s(0) }),
        "Nothing of it is kept: it was purged, is past the bounds of history, or was before the job was added.",
    ),
    ("over", || facts(Subject::Over { at: s(0) }), "It was not due any more: as many runs had begun as max_runs lets."),
    (
        "gone_with_data",
        || Facts { losses: vec![flush()], ..facts(Subject::Unrecorded { at: s(0) }) },
        "Nothing of it is kept since Redis lost data.",
    ),
    (
        "skipped_after_loss",
        missed_since,
        "It was skipped when work began again after Redis had lost data: by then it counted as missed.",
    ),
    ("never", || facts(Subject::Never), "It has had no occurrence yet."),
    (
        "open",
        || the_job(vec![RunFacts { place: Place::Waiting, ..fresh() }], None),
        "Run j@1795262400000: It waits for an open run of its job to end.",
    ),
    (
        "more_open",
        || facts(Subject::Job { open: vec![RunFacts { place: Place::Waiting, ..fresh() }], more: 2, last: None }),
        "And 2 more runs of it have not ended.",
    ),
    (
        "last",
        || the_job(vec![], Some(ended(RunState::Failed, Some("poison")))),
        "The last to end was j@1795262400000: failed (poison) on Sat 2026-11-21 12:00:05 UTC.",
    ),
];

#[test]
fn every_sentence_about_what_became_of_it_is_made_true() {
    hold(Became::CODES, BECAME);
}
