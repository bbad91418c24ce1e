use super::explain_scene::*;
use crate::domain::explain::facts::ChainFacts;
use crate::domain::explain::{Facts, RunFacts, Subject};
use crate::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::chain::parents::{ParentRule, Parents};
use schedd_schedule::schedule_form::Schedule;

fn after(rule: ParentRule) -> impl Fn(Facts) -> Facts {
    move |facts| {
        facts.with_spec(|spec| {
            let jobs = ["a", "b"].map(|name| name.parse().unwrap()).into();
            spec.schedule = Schedule::After(Parents { rule, jobs });
        })
    }
}

fn end(run: &str, state: &str, exit_code: Option<i64>) -> ParentEnd {
    let run: schedd_schedule::names::RunId = run.parse().unwrap();
    let job = run.job().clone();
    ParentEnd { job, run, state: state.to_owned(), reason: String::new(), exit_code }
}

#[test]
fn a_child_is_said_to_run_after_its_parents() {
    let job = || after(ParentRule::AnySucceeded)(about(fresh()));
    job().says(
        "parents",
        "The job has no schedule of its own. It runs after any of a, b, when all parents have ended and at least one has succeeded.",
    );
    job().says(
        "next_after_parents",
        "The next run starts after any of a, b, in the next occurrence of the chain. schedctl next j prints its time.",
    );
    let mut lost = job();
    lost.lost_parents = vec!["b".parse().unwrap()];
    lost.says(
        "lost_parents",
        "Of its parents, b no longer exist, so the job does not run until they are added again or its parents are edited.",
    );
}

#[test]
fn an_occurrence_that_waits_names_the_parents_that_are_awaited() {
    let mut facts = after(ParentRule::Succeeded)(about(fresh()));
    facts.subject = Subject::Job { open: Vec::new(), more: 0, last: None };
    facts.chain = Some(ChainFacts {
        run: "j@5".parse().unwrap(),
        ends: vec![end("a@5", "succeeded", Some(0))],
        awaited: vec![
            ("b".parse().unwrap(), Some(RunState::Running)),
            ("c".parse().unwrap(), None),
        ],
        is_stuck: false,
    });
    let sentence = "Run j@5 waits for the end of b (running), c (no run yet). Parents that have ended: a@5 succeeded.";
    facts.says("awaits_parents", sentence);
    facts.chain.as_mut().unwrap().is_stuck = true;
    facts.says(
        "awaits_parents",
        &format!("{sentence} It waits in vain, because no run of the chain goes on for this occurrence: schedctl doctor --fix ends it."),
    );
}

#[test]
fn a_run_of_a_child_says_how_its_parents_ended() {
    let parents = || vec![end("a@5", "succeeded", Some(0)), end("b@5", "timed_out", None)];
    let skip = RunFacts { parents: parents(), ..skipped("parent") };
    after(ParentRule::Succeeded)(about(skip)).says(
        "skipped_parent",
        "The run was skipped because of the ends of its parents: a@5 succeeded, b@5 timed out. The job runs when all parents have succeeded.",
    );
    let ran = RunFacts { parents: parents(), ..started(90) };
    let facts = after(ParentRule::Ended)(about(ran));
    facts.says("parents_ended", "The parents of the run ended: a@5 succeeded, b@5 timed out.");
    assert!(!facts.codes().contains(&"late"), "a child is never late");
}
