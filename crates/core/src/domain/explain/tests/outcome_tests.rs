//! Tests of the findings about the outcome.

use super::explain_scene::{
    about, ana, asked_in_vain, attempt, done_by_ana, ended, entry, facts, fresh, in_range, node,
    running, s, skipped, started, the_job, unrecorded,
};
use crate::domain::explain::{
    AttemptFacts, Facts, NodeFacts, PastSchedule, Place, RunFacts, Subject,
};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::{JobSpec, Overlap};
use crate::domain::run::run_state::RunState;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::names::RunId;
use schedd_schedule::schedule_form::Schedule;
use std::time::Duration;

/// Returns facts about an occurrence in a ledger range. The range begins at noon and has an
/// occurrence each minute.
fn in_ledger(state: &str, reason: &str, count: u64, is_sure: bool) -> Facts {
    let (state, reason, at, first) = (state.to_owned(), reason.to_owned(), s(60), s(0));
    facts(Subject::Ledger { at, state, reason, first, last: s(120), count, is_sure })
}

#[test]
fn a_run_says_what_its_attempts_did() {
    about(started(0))
        .says("attempt", "Attempt 1 on n1 started on 12:00:00, ended after 5s: succeeded.");
    let lost = AttemptFacts {
        is_end_known: false,
        ..attempt(Some("the node of the run was lost during the attempt"))
    };
    about(RunFacts { first_start: Some(s(0)), attempts: vec![lost], ..ended(RunState::Lost, None) }).says(
        "attempt",
        "Attempt 1 on n1 started on 12:00:00. Its end is not known: the node of the run was lost during the attempt.",
    );
    about(running())
        .says("attempt", "Attempt 1 on n1 started on 12:00:00 and is running.")
        .says("running", "The run is running on n1, started on 12:00:00.");
    about(RunFacts { handed_back: Some("shutdown".to_owned()), ..started(0) }).says(
        "handed_back",
        "The run was claimed by a node and handed back without a start: shutdown.",
    );
    done_by_ana(AuditEntry::RUN_RETRIED, 60, about(started(0)))
        .says("retried", "The run was retried by ana@h1 on 12:01:00.");
    let text = "The run was running on node n1, which was last seen on 12:00:30. Another node recovers the run when its lease expires.";
    let gone = NodeFacts { last_seen: Some(s(30)), ..node("n1", &[]) };
    Facts { nodes: vec![gone], ..about(running()) }.says("running_unseen", text);
    about(RunFacts { is_asked_to_stop: true, by: Some(ana()), ..running() })
        .says("asked_to_stop", "The run was asked to stop by ana@h1.");
}

#[test]
fn a_run_says_how_it_ended() {
    use RunState::{Cancelled, Failed, Lost, Succeeded, TimedOut};
    let by_ana = |reason| RunFacts { by: Some(ana()), ..ended(Cancelled, Some(reason)) };
    let cases = vec![
        (ended(Succeeded, None), "succeeded", "The run succeeded on 12:00:05."),
        (
            ended(Succeeded, Some("done_check: already done")),
            "already_done",
            "The run succeeded: its done_check reported that the work was already done.",
        ),
        (ended(Failed, None), "failed", "The run failed."),
        (ended(Failed, Some("poison")), "failed", "The run failed: poison."),
        (ended(TimedOut, None), "timed_out", "The run exceeded its timeout and was stopped."),
        (
            ended(Lost, Some("the node of the run was lost during the attempt")),
            "lost",
            "The run is lost: the node of the run was lost during the attempt. schedd does not know if the work of the run is done.",
        ),
        (
            ended(Lost, None),
            "lost",
            "The run is lost. schedd does not know if the work of the run is done.",
        ),
        (
            asked_in_vain(),
            "asked_in_vain",
            "The run is lost. No further attempt was started: done_check gave no clear answer 4 times in a row: exit code 9. schedd does not know if the work of the run is done.",
        ),
        (by_ana("cancelled"), "cancelled", "The run was cancelled by ana@h1 on 12:00:05."),
        (
            ended(Cancelled, Some("cancelled")),
            "cancelled",
            "The run was cancelled on 12:00:05. The user who cancelled the run is not known.",
        ),
        (
            ended(Cancelled, Some("replaced")),
            "replaced",
            "The run was stopped because the next run of its job replaced it.",
        ),
        (
            by_ana("removed"),
            "removed_with_job",
            "The run ended because its job was removed by ana@h1.",
        ),
        (
            ended(Cancelled, Some("of an earlier job of this name")),
            "of_earlier_job",
            "The run was cancelled because it belongs to an earlier job of this name.",
        ),
    ];
    for (run, code, text) in cases {
        about(run).says(code, text);
    }
}

#[test]
fn a_skipped_run_says_why() {
    let skip = |reason| about(skipped(reason));
    about(RunFacts { behind: Some("j@5".parse().unwrap()), ..skipped("overlap") })
        .says("skipped_overlap", "The run was skipped because run j@5 was still open.");
    skip("overlap")
        .says("skipped_overlap", "The run was skipped because an earlier run was still open.");
    skip("max_runs").says(
        "skipped_used_up",
        "The run was skipped because as many runs had started as max_runs allows.",
    );
    skip("missed")
        .says("skipped_missed", "The run was skipped as missed: it could not start in time.");
    done_by_ana(AuditEntry::PAUSED, -60, skip("paused")).says(
        "skipped_paused",
        "The run was skipped because its job was paused by ana@h1 on 11:59:00.",
    );
    skip("paused").says("skipped_paused", "The run was skipped because its job was paused.");
    skip("calendar").says("skipped", "The run was skipped: calendar.");
    in_range(60, "missed").says(
        "in_range",
        "For the same reason, all 3 occurrences from 12:00:00 to 12:02:00 were skipped.",
    );
    about(RunFacts { skipped: Some((s(120), 100_001)), ..skipped("missed") }).says(
        "in_range",
        "For the same reason, more than 100,000 occurrences from 12:00:00 to 12:02:00 were skipped.",
    );
}

/// Returns facts about the run of noon, which was skipped as missed at `at`.
fn missed_at(at: i64, change: impl FnOnce(&mut JobSpec)) -> Facts {
    about(RunFacts { finished_at: Some(s(at)), ..skipped("missed") }).with_spec(change)
}

#[test]
fn a_missed_run_says_which_rule_decided() {
    let mode = |mode| move |spec: &mut JobSpec| spec.catch_up.mode = mode;
    let newer = "The run was skipped because a newer occurrence, j@1795262460000, was due before the run could start.";
    missed_at(70, |_| {})
        .says(
            "skipped_missed",
            &format!("{newer} catch_up = latest starts only the newest occurrence."),
        )
        .says("default", "catch_up = latest is the default.");
    missed_at(70, mode(CatchUpMode::Skip)).says(
        "skipped_missed",
        &format!("{newer} catch_up = skip starts only the newest occurrence."),
    );
    let late = "The run was skipped because it was 5m late.";
    missed_at(300, |spec| {
        spec.catch_up.mode = CatchUpMode::Skip;
        spec.schedule = Schedule::Cron(vec!["0 * * * *".parse().unwrap()]);
    })
    .says(
        "skipped_missed",
        &format!("{late} catch_up = skip starts no run that is later than late_after."),
    )
    .says("default", "late_after = 1m is the default.");
    missed_at(300, |spec| {
        (spec.catch_up.mode, spec.catch_up.max_count) = (CatchUpMode::All, 3);
    })
    .says("skipped_missed", "The run was skipped because more than 3 occurrences were due before the run could start. max_count = 3 of catch_up starts only the newest 3.")
    .says("set_in_file", "catch_up = all, max_count = 3, set in [jobs.j] or [defaults] of the file of node n1.");
    let hourly = |spec: &mut JobSpec| {
        spec.schedule = Schedule::Cron(vec!["0 * * * *".parse().unwrap()]);
        spec.catch_up.max_age = Some(Duration::from_secs(200));
        spec.shape.skip_if_late = Some(Duration::from_secs(250));
    };
    missed_at(300, hourly).says(
        "skipped_missed",
        &format!("{late} catch_up starts no run that is more than max_age = 3m20s late."),
    );
    missed_at(300, |spec| {
        hourly(spec);
        spec.catch_up.max_age = None;
    })
    .says("skipped_missed", &format!("{late} skip_if_late = 4m10s allows no later start."))
    .says(
        "set_in_file",
        "skip_if_late = 4m10s, set in [jobs.j] or [defaults] of the file of node n1.",
    );
}

#[test]
fn a_run_skipped_by_a_full_overlap_queue_names_its_maximum() {
    let skip = RunFacts { behind: Some("j@5".parse().unwrap()), ..skipped("overlap") };
    about(skip)
        .with_spec(|spec| spec.overlap = Overlap::Queue { max: 1 })
        .says(
            "skipped_overlap",
            "The run was skipped because run j@5 was still open, and max = 1 allows no more waiting runs.",
        )
        .says(
            "set_in_file",
            "overlap = queue with max = 1 (the default of max), set in [jobs.j] or [defaults] of the file of node n1.",
        );
}

#[test]
fn an_open_run_says_what_it_waits_for() {
    let later = |run: RunFacts| about(RunFacts { ready: Some(s(960)), ..run });
    let waiting = || RunFacts { place: Place::Waiting, ..fresh() };
    about(RunFacts { behind: Some("j@5".parse().unwrap()), ..waiting() })
        .says("waits", "The run waits for run j@5 to end.");
    about(waiting()).says("waits", "The run waits for an open run of its job to end.");
    later(RunFacts {
        attempts: vec![attempt(Some("exit code 3"))],
        first_start: Some(s(0)),
        ..fresh()
    })
    .says("retry_at", "The run is retried on 12:16:00.");
    later(RunFacts { reason: Some("done_check gave no clear answer: exit code 2".to_owned()), ..fresh() })
        .says("ask_at", "The run has not started: done_check gave no clear answer: exit code 2. The done_check is asked again on 12:16:00.");
    later(RunFacts { is_spread: true, ..fresh() }).says(
        "spread_to",
        "No node started the run in time. The spread of catch_up moved its start to 12:16:00.",
    );
    later(fresh()).says("to_come", "The run is planned for 12:16:00.");
    facts(Subject::ToCome { at: s(1020) }).says("to_come", "The run is planned for 12:17:00.");
    about(RunFacts { place: Place::Paused, ..fresh() })
        .says("job_paused", "The run waits because its job is paused.");
    about(fresh())
        .says("owed", "The run has been ready since 12:00:00. No node has claimed the run yet.");
    facts(Subject::Behind { at: s(60), run: Box::new(fresh()) })
        .says("behind_owed", "This occurrence has no run yet, because the earlier run, due on 12:00:00, has not started.");
}

#[test]
fn a_backfill_of_an_occurrence_is_named() {
    let missed = || about(skipped("missed"));
    facts(Subject::ToMakeUp { at: s(-60) }).says(
        "to_make_up",
        "This occurrence waits for its backfill, which was requested with schedctl backfill.",
    );
    Facts { made_up_by: Some((RunId::backfill("j".parse().unwrap(), s(0)), RunState::Succeeded)), ..missed() }.says(
        "made_up_by",
        "schedctl backfill made run j@1795262400000~backfill for this occurrence. The state of that run is: succeeded.",
    );
    let dropped =
        || AuditEntry { dues: Some((s(-60), s(60))), ..entry(AuditEntry::BACKFILL_DROPPED, 90) };
    let text = "The backfill of this occurrence was cancelled by ana@h1 on 12:01:30.";
    Facts { audit_log: vec![dropped()], ..missed() }.says("made_up_dropped", text);
    // The job had another schedule when the backfill was requested.
    let before_an_edit = |past| {
        let facts =
            Facts { audit_log: vec![dropped()], past, ..facts(Subject::Unrecorded { at: s(0) }) };
        facts.with_spec(|spec| spec.schedule = Schedule::At(s(600)))
    };
    let definition = facts(Subject::Never).job.unwrap().definition.ok();
    let past = PastSchedule { from: s(-3600), until: s(300), definition };
    before_an_edit(vec![past]).says("made_up_dropped", text);
    assert!(!before_an_edit(Vec::new()).codes().contains(&"made_up_dropped"));
}

#[test]
fn an_occurrence_without_a_record_says_what_is_left_of_it() {
    let range = "due between 12:00:00 and 12:02:00";
    in_ledger("skipped", "overlap", 3, true).says(
        "trimmed",
        &format!("The run ended as skipped (overlap). Its record is no longer kept. In all, 3 runs {range} ended that way."),
    );
    let missed = "The run ended as skipped (missed). Its record is no longer kept, nor is the reason why it did not start.";
    in_ledger("skipped", "missed", 1, true).says("trimmed", missed);
    in_ledger("skipped", "missed", 3, true)
        .says("trimmed", &format!("{missed} In all, 3 runs {range} ended that way."));
    in_ledger("timed_out", "", 1, true)
        .says("trimmed", "The run ended as timed out. Its record is no longer kept.");
    let text = format!(
        "The run ended as skipped (paused). Its record is no longer kept. In all, at least 100,000 runs {range} ended that way."
    );
    in_ledger("skipped", "paused", 100_000, true).says("trimmed", &text);
    let text = format!(
        "2 runs {range} ended as succeeded. The ledger does not show whether this occurrence was one of them."
    );
    in_ledger("succeeded", "", 2, false).says("perhaps_trimmed", &text);
    let counts = vec![("failed".to_owned(), 2), ("succeeded".to_owned(), 40)];
    facts(Subject::BeforeLedger { at: s(0), counts, until: s(60) }).says(
        "counted",
        "The record of this run is no longer kept. Only counts remain of the runs due up to 12:01:00: 2 failed, 40 succeeded.",
    );
    unrecorded().says(
        "unrecorded",
        "Redis has no record of this occurrence: the record was purged or trimmed, or the job was added later.",
    );
    let over = || facts(Subject::Over { at: s(0) });
    over().says("over", "This occurrence has no run: as many runs had started as max_runs allows.");
    over()
        .with_job(|job| job.ended = Some(("finished".to_owned(), Some(s(-5)))))
        .says("over", "This occurrence has no run: the job ended on 11:59:55.");
    facts(Subject::Never).says("never", "The job has not been due yet.");
}

#[test]
fn a_job_lists_its_open_runs_and_the_last_that_ended() {
    let open = || vec![RunFacts { place: Place::Waiting, ..fresh() }];
    the_job(open(), None)
        .says("open", "Run j@1795262400000 waits for an open run of its job to end.");
    let more = |more| facts(Subject::Job { open: open(), more, last: None });
    more(1).says("more_open", "1 more run of the job has not ended.");
    more(2).says("more_open", "2 more runs of the job have not ended.");
    the_job(vec![], Some(ended(RunState::Failed, Some("poison"))))
        .says("last", "Run j@1795262400000 was the last to end: failed (poison) on 12:00:05.");
}
