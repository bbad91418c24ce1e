//! Histories of jobs on each node, for the checker's test of itself: for each rule one that breaks
//! it and one that keeps it.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Attempt, Delay, Hit, Recorded, RunName};
use crate::world::each_node::{Nodes, instances};
use crate::world::jobs::{Act, Job};
use crate::world::schedule::{Phase, When};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

pub(crate) fn judge(expect: Expect<'_>) {
    placed(expect);
    owed(expect);
    timed(expect);
    rolling(expect);
}

/// Job `each` of three nodes, due at 10, 20, 30 and 40 s. Each node did each run within a second,
/// one node after the other.
fn calm(at_once: Option<usize>) -> World {
    let mut w = World::calm();
    let phase = w.evidence.jobs["a"].phases[0].clone();
    let mut job =
        Job::new("each", Act::Work, 200).due(When::Every { period: 10, anchor: (at(0), at(0)) });
    job.nodes = Nodes::Each { at_once };
    job.phases = vec![Phase { when: job.phases[0].when, ..phase }];
    let of_each = instances(vec![job], &NODES.map(str::to_owned), &[]);
    w.evidence.jobs = of_each.into_iter().map(|job| (job.name.clone(), job)).collect();
    (w.evidence.attempts, w.evidence.history) = (Vec::new(), Vec::new());
    for due in [10, 20, 30, 40] {
        for (place, node) in NODES.into_iter().enumerate() {
            let before = 250 * i64::try_from(place).unwrap();
            w = done(w, node, (due, before));
        }
    }
    w
}

/// A run of the instance on `node`, which began there so many milliseconds after it was due.
fn done(mut w: World, node: &str, (due, after): (i64, i64)) -> World {
    let fence = 100 + u64::try_from(w.evidence.attempts.len()).unwrap();
    w.done(at(due), fence);
    let run = RunName::parse(&format!("each/{node}@{}", at(due) / 1000)).unwrap();
    let began = at(due) + after * 1000;
    let attempt = w.evidence.attempts.last_mut().unwrap();
    (attempt.run, attempt.node) = (run.clone(), node.to_owned());
    (attempt.began, attempt.last_sign) = (began, began + 200_000);
    attempt.ended = Some((attempt.last_sign, 0));
    let finished = attempt.last_sign + 5_000;
    let recorded = w.evidence.history.last_mut().unwrap();
    (recorded.run, recorded.node, recorded.finished) = (run, Some(node.to_owned()), Some(finished));
    w
}

/// Returns the attempt and the record of a run of an instance.
fn run<'a>(w: &'a mut World, node: &str, due: i64) -> (&'a mut Attempt, &'a mut Recorded) {
    let id = format!("each/{node}@{}", at(due) / 1000);
    (
        w.evidence.attempts.iter_mut().find(|attempt| attempt.run.id == id).unwrap(),
        w.evidence.history.iter_mut().find(|recorded| recorded.run.id == id).unwrap(),
    )
}

/// Makes a run begin so many milliseconds after it was due.
fn begun(mut w: World, node: &str, due: i64, after: i64) -> World {
    let (attempt, recorded) = run(&mut w, node, due);
    attempt.began = at(due) + after * 1000;
    attempt.last_sign = attempt.began + 200_000;
    attempt.ended = Some((attempt.last_sign, 0));
    recorded.finished = Some(attempt.last_sign + 5_000);
    w
}

fn without(mut w: World, node: &str, due: i64) -> World {
    let id = format!("each/{node}@{}", at(due) / 1000);
    w.evidence.attempts.retain(|attempt| attempt.run.id != id);
    w.evidence.history.retain(|recorded| recorded.run.id != id);
    w
}

fn down(w: World, node: &str, from: i64, to: i64) -> World {
    w.fault(from, to, Hit::Nodes(vec![node.into()]), Delay::AtBegin, true)
}

/// n2 was killed in its run of 20 s, which was begun again at 29 s.
fn repeated(by: &str) -> World {
    let mut w = down(calm(None), "n2", 20, 28);
    let (attempt, recorded) = run(&mut w, "n2", 20);
    attempt.ended = None;
    let again = Attempt {
        number: 2,
        fence: 500,
        node: by.to_owned(),
        began: at(29),
        last_sign: at(29) + 200_000,
        ended: Some((at(29) + 200_000, 0)),
        ..attempt.clone()
    };
    (recorded.attempt, recorded.fence) = (2, Some(again.fence));
    recorded.finished = Some(again.last_sign + 5_000);
    w.evidence.attempts.push(again);
    w
}

fn placed(expect: Expect<'_>) {
    expect("a job on each node, done by each each time", &calm(None).evidence, &[]);
    let mut w = calm(None);
    run(&mut w, "n2", 20).0.node = "n3".into();
    expect("a run of a node that began on another", &w.evidence, &[Verdict::Above]);
    let mut w = calm(None);
    run(&mut w, "n2", 20).1.node = Some("n3".into());
    expect("a run of a node that is recorded for another", &w.evidence, &[Verdict::Above]);
    expect("a run of a killed node, begun again by it", &repeated("n2").evidence, &[]);
    expect("the same, begun again by another", &repeated("n3").evidence, &[Verdict::Above]);
    let mut w = repeated("n2");
    w.evidence.faults[0].harm.hit = Hit::Nodes(vec!["n3".into()]);
    expect("begun again, another node killed", &w.evidence, &[Verdict::Late, Verdict::Dup]);
    let w = done(calm(None), "n4", (20, 100));
    expect("a run of a node that does not serve the job", &w.evidence, &[Verdict::Drift]);
    let mut w = calm(None);
    let (attempt, recorded) = run(&mut w, "n2", 20);
    let own = RunName::parse(&format!("each@{}", at(20) / 1000)).unwrap();
    (attempt.run, recorded.run) = (own.clone(), own);
    expect("a run of the job itself", &w.evidence, &[Verdict::Missing, Verdict::Drift]);
}

fn owed(expect: Expect<'_>) {
    let w = without(calm(None), "n2", 20);
    expect("an occurrence that one node lacks", &w.evidence, &[Verdict::Missing]);
    let missed = || {
        let mut w = calm(None);
        let (attempt, recorded) = run(&mut w, "n2", 20);
        let id = attempt.run.id.clone();
        (recorded.state, recorded.reason) = ("skipped".into(), "missed".into());
        (recorded.node, recorded.finished) = (None, Some(at(29)));
        w.evidence.attempts.retain(|attempt| attempt.run.id != id);
        w
    };
    expect("missed by one node for nothing", &missed().evidence, &[Verdict::Missing]);
    expect("missed by a node that was down", &down(missed(), "n2", 15, 28).evidence, &[]);
    let w = down(missed(), "n3", 15, 28);
    expect("missed while another was down", &w.evidence, &[Verdict::Missing]);
    let mut w = calm(None);
    for due in [10, 20, 30, 40] {
        let (attempt, recorded) = run(&mut w, "n3", due);
        let other = RunName::parse(&format!("each/n3@{}", at(due + 3) / 1000)).unwrap();
        (attempt.run, recorded.run) = (other.clone(), other);
        let began = at(due + 3) + 10_000;
        (attempt.began, attempt.last_sign) = (began, began + 200_000);
        attempt.ended = Some((attempt.last_sign, 0));
        recorded.finished = Some(attempt.last_sign + 5_000);
    }
    let wanted = [Verdict::Missing, Verdict::Drift];
    expect("a node with other due times than the others", &w.evidence, &wanted);
}

fn timed(expect: Expect<'_>) {
    let late = || begun(calm(None), "n2", 20, 7_000);
    let wanted = [Verdict::Late, Verdict::Drift];
    expect("begun 7 s after by a node that was down", &down(late(), "n2", 15, 26).evidence, &[]);
    expect("the same, another node down", &down(late(), "n3", 20, 26).evidence, &wanted);
    let stopped = |from, to, may_repeat| {
        late().fault(from, to, Hit::Nodes(vec!["n2".into()]), Delay::None, may_repeat)
    };
    expect("the same, the node ended with its grace", &stopped(19, 26, true).evidence, &[]);
    expect("the same, ended long before", &stopped(12, 16, true).evidence, &wanted);
    expect("the same, under a fault that ends no node", &stopped(19, 26, false).evidence, &wanted);
    let w = down(late(), "n2", 2, 4);
    expect("the same, the node back long before", &w.evidence, &wanted);
}

fn rolling(expect: Expect<'_>) {
    expect("one node after the other", &calm(Some(1)).evidence, &[]);
    let two = |at_once| begun(calm(Some(at_once)), "n2", 20, 150);
    expect("two nodes at once, where one may", &two(1).evidence, &[Verdict::Above]);
    expect("two nodes at once, where two may", &two(2).evidence, &[]);
    let last = |after| begun(calm(Some(1)), "n3", 20, after);
    let wanted = [Verdict::Late, Verdict::Drift];
    expect("the last node long after the one before", &last(3_000).evidence, &wanted);
    let gone = |after| down(last(after), "n2", 14, 26);
    expect("the same, a node down that was let in first", &gone(3_000).evidence, &[]);
    expect("later than its place is kept", &gone(5_500).evidence, &wanted);
}
