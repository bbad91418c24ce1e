//! Histories of a chain, for the checker's test of itself: for each rule one that breaks it and one
//! that keeps it.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Attempt, Recorded, RunName, SECOND};
use crate::world::jobs::Job;

pub(crate) fn judge(expect: Expect<'_>) {
    expect("each occurrence goes through the chain", &calm().evidence, &[]);
    let mut w = calm();
    w.evidence.attempts.retain(|attempt| attempt.run.id != id(20));
    w.evidence.history.retain(|recorded| recorded.run.id != id(20));
    expect("a parent that ended, and no run of its child", &w.evidence, &[Verdict::Missing]);
    let mut w = skipped(calm());
    expect("a child skipped after a success", &w.evidence, &[Verdict::Missing]);
    w = skipped(calm()).end(20, "skipped", "missed");
    w.evidence.jobs.get_mut("a").unwrap().phases[0].sure_to = at(15);
    let paused = w.recorded(20, |recorded| recorded.state = "cancelled".into());
    let mut w = paused;
    w.evidence.operations.push(crate::evidence::Operation {
        from: at(20),
        to: at(21),
        what: crate::evidence::Doing::Cancelled(format!("a@{}", at(20) / 1000)),
    });
    expect("a child skipped after a cancelled parent", &w.evidence, &[]);
    let mut w = calm();
    let child = w.evidence.attempts.iter_mut().find(|attempt| attempt.run.id == id(20)).unwrap();
    child.began = at(20) + SECOND / 10;
    expect("a child that began before its parent had ended", &w.evidence, &[Verdict::Early]);
    let mut w = calm();
    let child = w.evidence.attempts.iter_mut().find(|attempt| attempt.run.id == id(20)).unwrap();
    child.began = at(26);
    (child.last_sign, child.ended) = (at(27), Some((at(27), 0)));
    let recorded =
        w.evidence.history.iter_mut().find(|recorded| recorded.run.id == id(20)).unwrap();
    recorded.finished = Some(at(27) + 5_000);
    expect("a child that began long after its parent", &w.evidence, &[Verdict::Late]);
}

fn id(due: i64) -> String {
    format!("b@{}", at(due) / 1000)
}

/// Job `a` of the calm world, and its child `b`, each run of which began as soon as it could.
fn calm() -> World {
    let mut w = World::calm();
    let parent = w.evidence.jobs["a"].clone();
    let child = Job { name: "b".into(), after: Some("a".into()), is_sure: false, ..parent };
    w.evidence.jobs.insert("b".into(), child);
    let of_child = |run: &RunName| RunName {
        id: run.id.replacen('a', "b", 1),
        job: "b".into(),
        ..run.clone()
    };
    let (attempts, history) = (w.evidence.attempts.clone(), w.evidence.history.clone());
    w.evidence.attempts.extend(attempts.iter().map(|attempt| Attempt {
        run: of_child(&attempt.run),
        fence: attempt.fence + 100,
        began: attempt.began + SECOND,
        last_sign: attempt.last_sign + SECOND,
        ended: attempt.ended.map(|(ended, code)| (ended + SECOND, code)),
        ..attempt.clone()
    }));
    w.evidence.history.extend(history.iter().map(|recorded| Recorded {
        run: of_child(&recorded.run),
        fence: recorded.fence.map(|fence| fence + 100),
        finished: recorded.finished.map(|finished| finished + SECOND),
        ..recorded.clone()
    }));
    w
}

/// The same with the run of the child at 20 s skipped.
fn skipped(mut w: World) -> World {
    w.evidence.attempts.retain(|attempt| attempt.run.id != id(20));
    let recorded =
        w.evidence.history.iter_mut().find(|recorded| recorded.run.id == id(20)).unwrap();
    (recorded.state, recorded.reason) = ("skipped".into(), "parent".into());
    w
}
