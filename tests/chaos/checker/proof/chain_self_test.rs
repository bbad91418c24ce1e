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
    judge_join(expect);
}

/// Judges histories of `c`, which runs after `a` and `b`.
fn judge_join(expect: Expect<'_>) {
    let join = || with_child(calm(), "c", &["a", "b"], "b");
    expect("each occurrence goes through a join", &join().evidence, &[]);
    let mut w = join();
    of_join(&mut w).began = at(20) + 3 * SECOND / 2;
    expect("a join that began before its second parent had ended", &w.evidence, &[Verdict::Early]);
    let mut w = join();
    w.evidence.attempts.retain(|attempt| attempt.run.id != of("c", 20));
    w.evidence.history.retain(|recorded| recorded.run.id != of("c", 20));
    expect("two parents that ended, and no run of their child", &w.evidence, &[Verdict::Missing]);
}

/// The attempt of `c` for the occurrence at 20 s.
fn of_join(w: &mut World) -> &mut Attempt {
    w.evidence.attempts.iter_mut().find(|attempt| attempt.run.id == of("c", 20)).unwrap()
}

fn id(due: i64) -> String {
    of("b", due)
}

fn of(job: &str, due: i64) -> String {
    format!("{job}@{}", at(due) / 1000)
}

/// Job `a` of the calm world, and its child `b`, each run of which began as soon as it could.
fn calm() -> World {
    with_child(World::calm(), "b", &["a"], "a")
}

/// Adds the job `name` with these parents. Each of its runs begins a second after that of `last`.
fn with_child(mut w: World, name: &str, parents: &[&str], last: &str) -> World {
    let after = parents.iter().map(|parent| (*parent).to_owned()).collect();
    let parent = w.evidence.jobs[last].clone();
    let child = Job { name: name.into(), after, is_sure: false, ..parent };
    w.evidence.jobs.insert(name.into(), child);
    let of_child = |run: &RunName| RunName {
        id: run.id.replacen(last, name, 1),
        job: name.into(),
        ..run.clone()
    };
    let (mut attempts, mut history) = (w.evidence.attempts.clone(), w.evidence.history.clone());
    attempts.retain(|attempt| attempt.run.job == last);
    history.retain(|recorded| recorded.run.job == last);
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
