//! Tests of the findings about the outcome.

use super::explain_scene::{
    about, ana, asked_in_vain, attempt, deed, done_by_ana, ended, facts, fresh, in_range, node, running, s, skipped, started,
    the_job, unrecorded,
};
use crate::domain::explain::{AttemptFacts, Facts, NodeFacts, Place, RunFacts, Subject};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::name::names::RunId;
use crate::domain::run::run_state::RunState;

/// Returns facts about an occurrence in a ledger range that begins at noon and has a run each
/// minute.
fn in_ledger(state: &str, reason: &str, count: u64, is_sure: bool) -> Facts {
    let (state, reason, at, first) = (state.to_owned(), reason.to_owned(), s(60), s(0));
    facts(Subject::Ledger { at, state, reason, first, last: s(120), count, is_sure })
}

#[test]
fn a_run_says_what_its_attempts_did() {
    about(started(0)).says("attempt", "Attempt 1 on n1 started 12:00:00, ended after 5s: succeeded.");
    let lost = AttemptFacts { is_end_known: false, ..attempt(Some("its node was lost while it ran")) };
    about(RunFacts { first_start: Some(s(0)), attempts: vec![lost], ..ended(RunState::Lost, None) })
        .says("attempt", "Attempt 1 on n1 started 12:00:00; how it ended is not known: its node was lost while it ran.");
    about(running())
        .says("attempt", "Attempt 1 on n1 started 12:00:00 and is running.")
        .says("running", "It is running on n1 since 12:00:00.");
    about(RunFacts { handed_back: Some("shutdown".to_owned()), ..started(0) })
        .says("handed_back", "A node had claimed it and handed it back unexecuted: shutdown.");
    done_by_ana(AuditEntry::RUN_RETRIED, 60, about(started(0))).says("retried", "It was tried again by ana@h1 on 12:01:00.");
    let text = "It was running on n1, which was last seen on 12:00:30; it is taken back when its lease is over.";
    let gone = NodeFacts { last_seen: Some(s(30)), ..node("n1", &[]) };
    Facts { nodes: vec![gone], ..about(running()) }.says("running_unseen", text);
    about(RunFacts { is_asked_to_stop: true, by: Some(ana()), ..running() })
        .says("asked_to_stop", "It is asked to stop by ana@h1.");
}

#[test]
fn a_run_says_how_it_ended() {
    use RunState::{Cancelled, Failed, Lost, Succeeded, TimedOut};
    let by_ana = |reason| RunFacts { by: Some(ana()), ..ended(Cancelled, Some(reason)) };
    for (run, code, text) in [
        (ended(Succeeded, None), "succeeded", "It succeeded on 12:00:05."),
        (
            ended(Succeeded, Some("done_check: already done")),
            "already_done",
            "It succeeded: its done_check said that the work was already done.",
        ),
        (ended(Failed, None), "failed", "It failed."),
        (ended(Failed, Some("poison")), "failed", "It failed: poison."),
        (ended(TimedOut, None), "timed_out", "It took longer than its timeout and was stopped."),
        (
            ended(Lost, Some("its node was lost while it ran")),
            "lost",
            "It is lost, for it may or may not have done its work: its node was lost while it ran.",
        ),
        (ended(Lost, None), "lost", "It is lost: it may or may not have done its work."),
        (
            asked_in_vain(),
            "asked_in_vain",
            "It is lost, and this time nothing was started: done_check unclear 4 times in a row: exit code 9; whether its work is done is not known.",
        ),
        (by_ana("cancelled"), "cancelled", "It was cancelled by ana@h1 on 12:00:05."),
        (ended(Cancelled, Some("cancelled")), "cancelled", "It was cancelled on 12:00:05; by whom is not known."),
        (ended(Cancelled, Some("replaced")), "replaced", "It was stopped because the next run of its job took its place."),
        (by_ana("removed"), "removed_with_job", "It ended because its job was removed by ana@h1."),
        (
            ended(Cancelled, Some("of an earlier job of this name")),
            "of_earlier_job",
            "It was cancelled because it belongs to an earlier job of this name.",
        ),
    ] {
        about(run).says(code, text);
    }
}

#[test]
fn a_skipped_run_says_why() {
    let skip = |reason| about(skipped(reason));
    about(RunFacts { behind: Some("j@5".parse().unwrap()), ..skipped("overlap") })
        .says("skipped_overlap", "It was skipped because the run j@5 was still open.");
    skip("overlap").says("skipped_overlap", "It was skipped because an earlier run was still open.");
    skip("max_runs").says("skipped_used_up", "It was skipped because as many runs had begun as max_runs allows.");
    skip("missed").says("skipped_missed", "It was skipped because it was missed: it could not be started in time.");
    done_by_ana(AuditEntry::PAUSED, -60, skip("paused"))
        .says("skipped_paused", "It was skipped because its job was paused by ana@h1 on 11:59:00.");
    skip("paused").says("skipped_paused", "It was skipped because its job was paused.");
    skip("calendar").says("skipped", "It was skipped: calendar.");
    in_range(60, "missed").says("in_stretch", "So were all 3 occurrences from 12:00:00 to 12:02:00.");
    about(RunFacts { skipped: Some((s(120), 100_001)), ..skipped("missed") })
        .says("in_stretch", "So were more than 100,000 occurrences from 12:00:00 to 12:02:00.");
}

#[test]
fn an_open_run_says_what_it_waits_for() {
    let later = |run: RunFacts| about(RunFacts { ready: Some(s(960)), ..run });
    let waiting = || RunFacts { place: Place::Waiting, ..fresh() };
    about(RunFacts { behind: Some("j@5".parse().unwrap()), ..waiting() }).says("waits", "It waits for the run j@5 to end.");
    about(waiting()).says("waits", "It waits for an open run of its job to end.");
    later(RunFacts { attempts: vec![attempt(Some("exit code 3"))], first_start: Some(s(0)), ..fresh() })
        .says("retry_at", "It is tried again on 12:16:00.");
    later(RunFacts { reason: Some("done_check unclear: exit code 2".to_owned()), ..fresh() })
        .says("ask_at", "Nothing was started, done_check unclear: exit code 2; it is asked again on 12:16:00.");
    later(RunFacts { is_spread: true, ..fresh() })
        .says("spread_to", "It was missed, and is to start on 12:16:00 so that not all start at once.");
    later(fresh()).says("to_come", "It is still to come, on 12:16:00.");
    facts(Subject::ToCome { at: s(1020) }).says("to_come", "It is still to come, on 12:17:00.");
    about(RunFacts { place: Place::Held, ..fresh() }).says("held", "It waits because its job is paused.");
    about(fresh()).says("owed", "It is ready since 12:00:00, and no node has claimed it yet.");
    facts(Subject::Behind { at: s(60), run: Box::new(fresh()) })
        .says("behind_owed", "No run exists for it yet: the earlier run due 12:00:00 has not started.");
}

#[test]
fn a_backfill_of_an_occurrence_is_named() {
    let missed = || about(skipped("missed"));
    facts(Subject::ToMakeUp { at: s(-60) }).says("to_make_up", "It waits for its backfill, which schedctl backfill asked for.");
    Facts { made_up_by: Some((RunId::backfill("j".parse().unwrap(), s(0)), RunState::Succeeded)), ..missed() }
        .says("made_up_by", "schedctl backfill made the run j@1795262400000~backfill for it: succeeded.");
    let dropped = AuditEntry { dues: Some((s(-60), s(60))), ..deed(AuditEntry::BACKFILL_DROPPED, 90) };
    Facts { deeds: vec![dropped], ..missed() }.says("made_up_dropped", "Its backfill was cancelled by ana@h1 on 12:01:30.");
}

#[test]
fn an_occurrence_without_a_record_says_what_is_left_of_it() {
    let range = "due between 12:00:00 and 12:02:00";
    in_ledger("skipped", "overlap", 3, true)
        .says("trimmed", &format!("It ended skipped (overlap); its record is no longer kept. So did 3 runs {range}."));
    let missed = "It ended skipped (missed); its record is no longer kept, nor is what kept it from starting.";
    in_ledger("skipped", "missed", 1, true).says("trimmed", missed);
    in_ledger("skipped", "missed", 3, true).says("trimmed", &format!("{missed} So did 3 runs {range}."));
    in_ledger("timed_out", "", 1, true).says("trimmed", "It ended timed out; its record is no longer kept.");
    let text = format!("It ended skipped (paused); its record is no longer kept. So did at least 100,000 runs {range}.");
    in_ledger("skipped", "paused", 100_000, true).says("trimmed", &text);
    let text = format!(
        "Of the runs {range}, 2 ended succeeded. Whether this occurrence was due, and was among them, is no longer known."
    );
    in_ledger("succeeded", "", 2, false).says("perhaps_trimmed", &text);
    let counts = vec![("failed".to_owned(), 2), ("succeeded".to_owned(), 40)];
    facts(Subject::BeforeLedger { at: s(0), counts, until: s(60) }).says(
        "counted",
        "Its record is no longer kept. Of the runs due up to 12:01:00 only counts are left: 2 failed, 40 succeeded.",
    );
    unrecorded().says(
        "unrecorded",
        "No record of it is kept: it was purged, is older than the retention, or was due before the job was added.",
    );
    let over = || facts(Subject::Over { at: s(0) });
    over().says("over", "It was not due any more: as many runs had begun as max_runs allows.");
    over()
        .with_job(|job| job.ended = Some(("finished".to_owned(), Some(s(-5)))))
        .says("over", "It was not due any more: its job was over on 11:59:55.");
    facts(Subject::Never).says("never", "It has had no occurrence yet.");
}

#[test]
fn a_job_lists_its_open_runs_and_the_last_that_ended() {
    let open = || vec![RunFacts { place: Place::Waiting, ..fresh() }];
    the_job(open(), None).says("open", "Run j@1795262400000: It waits for an open run of its job to end.");
    let more = |more| facts(Subject::Job { open: open(), more, last: None });
    more(1).says("more_open", "And 1 more run of it has not ended.");
    more(2).says("more_open", "And 2 more runs of it have not ended.");
    the_job(vec![], Some(ended(RunState::Failed, Some("poison"))))
        .says("last", "The last to end was j@1795262400000: failed (poison) on 12:00:05.");
}
