//! What a loss of data leaves to be told.

use super::scene::{about, attempt, ended, event, facts, flush, fresh, missed_since, node, on, s, snapshot, started};
use super::{Example, hold};
use crate::domain::explain::{AttemptFacts, Facts, Loss, RunFacts, Subject, judge};
use crate::domain::node_event::Befell;
use crate::domain::run::RunState;

const BEREFT: &[Example] = &[
    (
        "data_lost",
        || Facts { losses: vec![flush()], ..facts(Subject::Unrecorded { at: s(0) }) },
        "Redis lost data, noticed by n1 on Sat 2026-11-21 12:01:00 UTC: its data was deleted. What was recorded up to Sat 2026-11-21 12:00:50 UTC is gone, but for what journals gave back.",
    ),
    (
        "data_lost",
        missed_since,
        "Redis lost data, noticed by n1 on Sat 2026-11-21 12:01:00 UTC: an older state came back. What was recorded between Sat 2026-11-21 11:59:00 UTC and Sat 2026-11-21 12:00:50 UTC is gone, but for what journals gave back.",
    ),
    ("journals_silent", missed_since, "The journals of n1 and n2 tell nothing of it, so whether it ran is not known."),
    (
        "journals_silent",
        || Facts { losses: vec![flush()], ..facts(Subject::Unrecorded { at: s(0) }) },
        "No journal has told anything of this occurrence yet, so whether it ran is not known.",
    ),
    (
        "may_have_run",
        begun_since,
        "All was put back to how it was on Sat 2026-11-21 11:59:00 UTC, so it may have run before. The journals of n1 and n2 tell nothing of it, so whether it did is not known.",
    ),
    (
        "may_have_run",
        || Facts { losses: vec![flush()], ..begun_since() },
        "All that was recorded before was gone, so it may have run before. No journal has told anything of this occurrence yet, so whether it did is not known.",
    ),
    (
        "given_back",
        || about(RunFacts { reason: Some("exit code 3; restored by the journal of n2".to_owned()), ..started(0) }),
        "Redis had lost this record; the journal of n2 gave it back.",
    ),
];

#[test]
fn every_sentence_about_a_loss_is_made_true() {
    hold(BEREFT);
}

fn codes(facts: &Facts) -> Vec<&'static str> {
    judge(facts).iter().map(|found| found.code).collect()
}

/// A run that began between when the data was last whole and when the loss was noticed; n1 had noted its life before.
fn begun_since() -> Facts {
    let again = AttemptFacts { started_at: Some(s(55)), ..attempt(Some("succeeded")) };
    let run = RunFacts { first_start: Some(s(55)), attempts: vec![again], ..ended(RunState::Succeeded, None) };
    let began = event(Befell::Started { seen_before: Some(s(-60)) }, 52, None);
    let other = node("n2", std::slice::from_ref(&began));
    Facts { losses: vec![snapshot()], ..on(vec![node("n1", &[began]), other], run) }
}

#[test]
fn of_a_run_that_began_after_an_old_state_came_back_the_loss_is_told_and_nothing_of_its_nodes_then() {
    let told = codes(&begun_since());
    assert!(told.contains(&"data_lost") && told.contains(&"may_have_run") && told.contains(&"timing_lost"), "{told:?}");
    assert!(!told.iter().any(|code| ["late", "late_no_node", "not_running", "given_back"].contains(code)), "{told:?}");
    // One that is still owed by it: that no node ran then is not known either.
    let owed = Facts { nodes: begun_since().nodes, losses: vec![snapshot()], ..about(fresh()) };
    assert!(!codes(&owed).iter().any(|code| ["late_no_node", "not_running"].contains(code)), "{:?}", codes(&owed));
    // A journal gave it back, or an attempt before is on record.
    let given = with_run(begun_since(), |run| run.reason = Some("restored by the journal of n2".to_owned()));
    let known = with_run(begun_since(), |run| run.attempts.insert(0, attempt(Some("exit code 3"))));
    for facts in [given, known] {
        assert!(!codes(&facts).contains(&"data_lost"), "{:?}", codes(&facts));
    }
    // Skipped in the time in which nobody had noticed yet.
    let missed = RunFacts { finished_at: Some(s(55)), ..ended(RunState::Skipped, Some("missed")) };
    assert!(codes(&Facts { losses: vec![snapshot()], ..about(missed) }).contains(&"skipped_after_loss"));
}

fn with_run(mut facts: Facts, change: impl Fn(&mut RunFacts)) -> Facts {
    if let Subject::Run(run) = &mut facts.subject {
        change(run);
    }
    facts
}

#[test]
fn a_loss_is_told_only_of_what_it_may_have_taken() {
    let missed = |losses: Vec<Loss>, at: i64| {
        let run = RunFacts { finished_at: Some(s(65)), ..ended(RunState::Skipped, Some("missed")) };
        Facts { losses, ..facts(Subject::Stretch { at: s(at), run: Box::new(run) }) }
    };
    // While the data was whole; when Redis was away before it came back; before what was kept; after all.
    for (at, is_told, is_hidden) in [(0, true, true), (55, true, false), (-300, false, false), (61, false, false)] {
        let codes = codes(&missed(vec![snapshot()], at));
        assert_eq!(codes.contains(&"data_lost"), is_told, "{at}: {codes:?}");
        assert_eq!(codes.contains(&"skipped_after_loss") && codes.contains(&"timing_lost"), is_hidden, "{at}: {codes:?}");
        assert_eq!(codes.contains(&"skipped_missed"), !is_hidden, "{at}: {codes:?}");
    }
    // What was skipped before the loss is a record that is still there, and one with attempts tells for itself.
    let before = Facts { losses: vec![snapshot()], ..about(ended(RunState::Skipped, Some("missed"))) };
    assert!(codes(&before).contains(&"skipped_missed"));
    let ran = Facts { losses: vec![snapshot()], ..about(started(0)) };
    assert!(!codes(&ran).contains(&"data_lost"));
    let owed = Facts { losses: vec![snapshot()], ..about(fresh()) };
    assert!(codes(&owed).contains(&"owed") && !codes(&owed).contains(&"journals_silent"));
}
