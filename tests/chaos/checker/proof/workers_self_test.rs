//! Histories of workers: `w1` has the runs of the job, which `schedctl work` executes.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Delay, Hit};

pub(super) fn judge(expect: Expect<'_>) {
    expect("four runs, each done by a worker", &by_worker().evidence, &[]);
    let again = |after_ms| {
        let mut world = by_worker().again(20, after_ms, 2);
        world.evidence.attempts.last_mut().unwrap().node = "worker:w2".into();
        world
    };
    expect("done, and begun again by another worker", &again(3_000).evidence, &[Verdict::Dup]);
    let hit = |world: World, who: &str| {
        world.fault(20, 21, Hit::Nodes(vec![who.into()]), Delay::AtBegin, true)
    };
    expect(
        "the same, its worker stopped as it ended",
        &hit(again(3_000), "worker:w1").evidence,
        &[],
    );
    expect(
        "the same, another worker stopped",
        &hit(again(3_000), "worker:w2").evidence,
        &[Verdict::Dup],
    );
    expect(
        "the same, a node killed, which may have been that of the worker",
        &hit(again(3_000), "n3").evidence,
        &[],
    );
    let w = hit(again(3_000), "worker:w1").job(|job| job.is_at_most_once = true);
    expect("at-most-once, its worker stopped, and begun again", &w.evidence, &[Verdict::Dup]);
    stale(expect, &hit(again(8_000), "worker:w1"));
    let lived =
        |sign_ms| hit(by_worker().cut(20).again(20, 8_000, 2).sign(20, sign_ms), "worker:w1");
    expect("killed with its worker before the next began", &lived(7_999).evidence, &[]);
    expect(
        "a process that outlived its killed worker into the next attempt",
        &lived(8_001).evidence,
        &[Verdict::Overlap],
    );
    let mut w = lived(9_000);
    w.evidence.faults[0].harm.may_overlap = true;
    expect("the same, the host of the worker frozen whole", &w.evidence, &[]);
    nodes_apart(expect);
}

/// An end that a worker reports when another has the run.
fn stale(expect: Expect<'_>, given_on: &World) {
    let taken = |finished_ms: i64| {
        let w = World { evidence: given_on.evidence.clone() };
        w.recorded(20, |recorded| recorded.finished = Some(at(20) + finished_ms * 1000))
    };
    expect("the end of the second attempt is recorded", &taken(8_600).evidence, &[]);
    expect(
        "an end is taken from the first worker while the second is at work",
        &taken(8_200).evidence,
        &[Verdict::Phantom],
    );
    let w = taken(8_600).recorded(20, |recorded| recorded.fence = Some(3));
    expect(
        "an end is recorded under the fence of the first worker",
        &w.evidence,
        &[Verdict::Stale],
    );
}

/// Faults of workers excuse nothing of the jobs that nodes execute.
fn nodes_apart(expect: Expect<'_>) {
    let late = |world: World| {
        let hit = Hit::Nodes(vec!["worker:w1".into()]);
        world.begin(20, 7_000).fault(20, 29, hit, Delay::Throughout, true)
    };
    expect("begun late by a worker that was cut off", &late(by_worker()).evidence, &[]);
    expect(
        "begun late by a node, while a worker was cut off",
        &late(World::calm()).evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let stopped =
        |world: World| world.begin(20, 3_000).fault(19, 20, Hit::Everyone, Delay::None, true);
    expect(
        "begun late by a worker, as all nodes were restarted",
        &stopped(by_worker()).evidence,
        &[],
    );
    expect(
        "begun late by a node, as all nodes were restarted with grace",
        &stopped(World::calm()).evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let skipped = |world: World| {
        let hit = Hit::Nodes(vec!["worker:w1".into()]);
        world.end(20, "skipped", "missed").fault(15, 30, hit, Delay::Throughout, true)
    };
    expect("missed by workers that were cut off", &skipped(by_worker()).evidence, &[]);
    expect(
        "missed by nodes, while workers were cut off",
        &skipped(World::calm()).evidence,
        &[Verdict::Missing],
    );
}

/// The same as [`World::calm`], of a job that workers execute.
fn by_worker() -> World {
    let mut world = World::calm().job(|job| job.is_pulled = true);
    for attempt in &mut world.evidence.attempts {
        attempt.node = "worker:w1".into();
    }
    world
}
