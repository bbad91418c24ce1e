//! Tests of the findings about occurrences after a data loss.

use super::explain_scene::{
    about, attempt, ended, facts, flush, fresh, missed_since, node, on, s, skipped, snapshot,
    start, started, unrecorded,
};
use crate::domain::explain::{AttemptFacts, Facts, Loss, RunFacts, Subject};
use crate::domain::run::run_state::RunState;

/// Returns facts of a run that began between the last time with all data and the time when the loss
/// was noticed. The nodes had started before.
fn begun_since() -> Facts {
    let again = AttemptFacts { started_at: Some(s(55)), ..attempt(Some("succeeded")) };
    let run = RunFacts {
        first_start: Some(s(55)),
        attempts: vec![again],
        ..ended(RunState::Succeeded, None)
    };
    let nodes = ["n1", "n2"].map(|name| node(name, &[start(52, Some(-60))])).to_vec();
    Facts { losses: vec![snapshot()], ..on(nodes, run) }
}

fn flushed(facts: Facts) -> Facts {
    Facts { losses: vec![flush()], ..facts }
}

#[test]
fn a_loss_is_named_with_what_the_journals_know() {
    let deleted = "Node n1 noticed on 12:01:00 that Redis had lost data: all data was deleted. Records made up to 12:00:50 are gone, unless a journal restored them.";
    flushed(unrecorded())
        .says("data_lost", deleted)
        .says(
            "journals_silent",
            "No node has reported yet whether its journal has a record of this occurrence, so it is not known if the occurrence ran.",
        )
        .says("gone_with_data", "Redis lost the records of the job's runs in a data loss.");
    let text = "Node n1 noticed on 12:01:00 that Redis had lost data: an older state came back. Records made between 11:59:00 and 12:00:50 are gone, unless a journal restored them.";
    let skipped = "The run was skipped after Redis had lost data: when nodes started runs again, the run counted as missed.";
    missed_since()
        .says("data_lost", text)
        .says(
            "journals_silent",
            "The journals of nodes n1 and n2 have no record of this occurrence, so it is not known if the occurrence ran.",
        )
        .says("skipped_after_loss", skipped)
        .says("timing_lost", "Redis lost the data that shows whether the run started on time.");
    let text = "Redis went back to its data of 11:59:00, so this occurrence may also have run before the data loss. The journals of nodes n1 and n2 have no record of this occurrence.";
    begun_since().says("may_have_run", text);
    let text = "All earlier records are gone, so this occurrence may also have run before the data loss. No node has reported yet whether its journal has a record of this occurrence.";
    flushed(begun_since()).says("may_have_run", text);
    let restored = started(0)
        .with(|run| run.reason = Some("exit code 3; restored by the journal of n2".to_owned()));
    about(restored).says(
        "given_back",
        "Redis had lost the record of this run. The journal of node n2 restored the record.",
    );
}

#[test]
fn a_run_begun_after_an_old_state_came_back_says_nothing_of_its_nodes_then() {
    let found = begun_since().codes();
    assert!(
        found.contains(&"data_lost")
            && found.contains(&"may_have_run")
            && found.contains(&"timing_lost"),
        "{found:?}"
    );
    assert!(
        !found
            .iter()
            .any(|code| ["late", "late_no_node", "not_running", "given_back"].contains(code)),
        "{found:?}"
    );
    // For a ready run it is also not known if a node was running at that time.
    let ready =
        Facts { nodes: begun_since().nodes, losses: vec![snapshot()], ..about(fresh()) }.codes();
    assert!(!ready.iter().any(|code| ["late_no_node", "not_running"].contains(code)), "{ready:?}");
    // The loss does not matter if a journal restored the record, or if the record has an attempt
    // before the loss.
    let Subject::Run(begun) = begun_since().subject else { panic!() };
    let restored =
        begun.clone().with(|run| run.reason = Some("restored by the journal of n2".to_owned()));
    let known = begun.with(|run| run.attempts.insert(0, attempt(Some("exit code 3"))));
    for run in [restored, known] {
        let found = Facts { subject: Subject::Run(Box::new(run)), ..begun_since() }.codes();
        assert!(!found.contains(&"data_lost"), "{found:?}");
    }
    // A run that was skipped before a node noticed the loss.
    let missed = RunFacts { finished_at: Some(s(55)), ..skipped("missed") };
    assert!(
        Facts { losses: vec![snapshot()], ..about(missed) }.codes().contains(&"skipped_after_loss")
    );
}

#[test]
fn a_loss_concerns_only_records_it_may_have_taken() {
    let missed = |losses: Vec<Loss>, at: i64| {
        let run = RunFacts { finished_at: Some(s(65)), ..skipped("missed") };
        Facts { losses, ..facts(Subject::InRange { at: s(at), run: Box::new(run) }) }
    };
    // In this order: Redis had all data; Redis was out of reach; before the kept data ends; after
    // the loss.
    for (at, is_named, is_hidden) in
        [(0, true, true), (55, true, false), (-300, false, false), (61, false, false)]
    {
        let codes = missed(vec![snapshot()], at).codes();
        assert_eq!(codes.contains(&"data_lost"), is_named, "{at}: {codes:?}");
        assert_eq!(
            codes.contains(&"skipped_after_loss") && codes.contains(&"timing_lost"),
            is_hidden,
            "{at}: {codes:?}"
        );
        assert_eq!(codes.contains(&"skipped_missed"), !is_hidden, "{at}: {codes:?}");
    }
    // The record of a run skipped before the loss is kept. The attempts of a run are on record.
    let after_loss = |run| Facts { losses: vec![snapshot()], ..about(run) }.codes();
    assert!(after_loss(skipped("missed")).contains(&"skipped_missed"));
    assert!(!after_loss(started(0)).contains(&"data_lost"));
    let ready = after_loss(fresh());
    assert!(ready.contains(&"owed") && !ready.contains(&"journals_silent"), "{ready:?}");
}
