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
    let frozen = |sign_ms| {
        let mut w = lived(sign_ms);
        w.evidence.faults[0].harm.may_overlap = true;
        w.evidence.faults[0].to = at(29);
        w
    };
    expect("the same, the host of the worker frozen whole", &frozen(10_900).evidence, &[]);
    expect(
        "a process that went on long after its host had thawed",
        &frozen(11_100).evidence,
        &[Verdict::Overlap],
    );
    nodes_apart(expect);
    apps(expect);
}

/// Runs of an app, which is a node: it reaches Redis itself.
fn apps(expect: Expect<'_>) {
    expect("four runs, each done by an app", &by("app1").evidence, &[]);
    let again = |after_ms, who: &str, delay| {
        let mut world = by("app1").again(20, after_ms, 2);
        world.evidence.attempts.last_mut().unwrap().node = "app2".into();
        world.fault(20, 21, Hit::Nodes(vec![who.into()]), delay, true)
    };
    let at_begin = |who| again(3_000, who, Delay::AtBegin);
    expect("done, and begun again, its app killed as it ended", &at_begin("app1").evidence, &[]);
    for (what, who) in [
        ("the same, another app killed", "app2"),
        ("the same, a worker killed", "worker:w1"),
        ("the same, a node killed, which no app asks", "n3"),
    ] {
        expect(what, &at_begin(who).evidence, &[Verdict::Dup]);
    }
    let given_back = |after_ms| {
        let mut world = again(after_ms, "app1", Delay::None);
        let first = world.evidence.attempts.iter_mut().find(|first| first.run.due == at(20));
        first.unwrap().ended = None;
        world
    };
    expect("given back by an app that ends, and begun at once", &given_back(1_500).evidence, &[]);
    expect("the same, and begun late", &given_back(12_000).evidence, &[Verdict::Late]);
    let cut_off = |world: World| {
        let hit = Hit::Nodes(vec!["app1".into()]);
        world.begin(20, 7_000).fault(15, 29, hit, Delay::Throughout, true)
    };
    expect("begun late by an app that was cut off", &cut_off(by("app1")).evidence, &[]);
    for (what, world) in [
        ("begun late by a worker, while an app was cut off", by_worker()),
        ("begun late by a node, while an app was cut off", World::calm()),
    ] {
        expect(what, &cut_off(world).evidence, &[Verdict::Late, Verdict::Drift]);
    }
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
    by("worker:w1")
}

/// The same, with this worker.
fn by(worker: &str) -> World {
    let mut world = World::calm().job(|job| job.is_pulled = true);
    for attempt in &mut world.evidence.attempts {
        attempt.node = worker.into();
    }
    world
}
