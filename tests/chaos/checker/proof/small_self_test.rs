//! Histories of the small node, for the checker's test of itself: for each rule one that breaks it
//! and one that keeps it.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Delay, Hit, Micros, RunName};
use crate::world::jobs::Job;
use crate::world::small::{RANKED, ROOM, SHARES, STRICT, batch};

/// The due time of a batch: 20 s.
const DUE: i64 = 20_000;
/// The time between two claims.
const STEP: i64 = 40;

pub(crate) fn judge(expect: Expect<'_>) {
    above(expect);
    strict(expect);
    priorities(expect);
    weights(expect);
    late(expect);
}

fn ms(ms: i64) -> Micros {
    at(0) + ms * 1000
}

/// Returns the jobs of a batch in these queues, in its order.
fn of(queues: &[&str]) -> Vec<Job> {
    batch(0, ms(DUE))
        .into_iter()
        .filter(|job| queues.iter().any(|queue| job.sharing.queue == Some(queue)))
        .collect()
}

/// The small node claims these jobs in this order, from a little before they are due, and does each
/// soon after.
fn claimed(jobs: Vec<Job>) -> World {
    claimed_from(jobs, DUE - 90, STEP)
}

fn claimed_from(jobs: Vec<Job>, from: i64, step: i64) -> World {
    let mut w = World::calm();
    for (number, job) in jobs.into_iter().enumerate() {
        let due = due_of(&job);
        let (number, fence) =
            (i64::try_from(number).unwrap(), 100 + u64::try_from(number).unwrap());
        let claimed = ms(from + number * step).max(due);
        let (began, ended) = (claimed + 10_000, claimed + 20_000);
        w.done(due, fence);
        let run = RunName::parse(&format!("{}@{}", job.name, due / 1000)).unwrap();
        let recorded = w.evidence.history.last_mut().unwrap();
        (recorded.run, recorded.started, recorded.finished) =
            (run.clone(), Some(claimed), Some(ended + 5_000));
        let attempt = w.evidence.attempts.last_mut().unwrap();
        (attempt.run, attempt.node) = (run, "n4".into());
        (attempt.began, attempt.ended, attempt.last_sign) = (began, Some((ended, 0)), ended);
        w.evidence.jobs.insert(job.name.clone(), job);
    }
    w
}

/// Sets the time at which the ends of its runs are in history.
fn reported_by(mut w: World, end: i64) -> World {
    for recorded in w.evidence.history.iter_mut().filter(|recorded| recorded.started.is_some()) {
        recorded.finished = Some(ms(end));
    }
    w
}

fn due_of(job: &Job) -> Micros {
    job.phases[0].when.dues(ms(0), ms(DUE * 2), None)[0]
}

/// The small node was killed this many seconds before the batch was due.
fn hit(w: World, before: i64) -> World {
    w.fault(
        DUE / 1000 - before,
        DUE / 1000 - before + 1,
        Hit::Nodes(vec!["n4".into()]),
        Delay::AtBegin,
        true,
    )
}

/// Returns the jobs of two lists, `each` of the first and then one of the second, as long as both
/// last.
fn mixed(first: Vec<Job>, second: Vec<Job>, each: usize) -> Vec<Job> {
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    let mut all = Vec::new();
    while first.peek().is_some() || second.peek().is_some() {
        all.extend(first.by_ref().take(each));
        all.extend(second.next());
    }
    all
}

fn above(expect: Expect<'_>) {
    let together = |count: usize| {
        let mut w = claimed_from(of(&[SHARES.0]).into_iter().take(count).collect(), DUE, 1);
        for attempt in w.evidence.attempts.iter_mut().filter(|attempt| attempt.node == "n4") {
            (attempt.ended, attempt.last_sign) = (Some((ms(DUE + 500), 0)), ms(DUE + 500));
        }
        reported_by(w, DUE + 600)
    };
    expect("as many at once as the small node has room for", &together(ROOM).evidence, &[]);
    expect("one more at once", &together(ROOM + 1).evidence, &[Verdict::Above]);
    let mut w = together(ROOM + 1);
    for attempt in w.evidence.attempts.iter_mut().rev().take(1) {
        attempt.node = "n3".into();
    }
    w.evidence.labelled.push("n3".into());
    expect(
        "one more, on another node that does not carry its label",
        &w.evidence,
        &[Verdict::Above],
    );
    let killed = |began: i64| {
        let mut w =
            together(ROOM + 1).fault(20, 21, Hit::Nodes(vec!["n4".into()]), Delay::AtBegin, true);
        for attempt in w.evidence.attempts.iter_mut().filter(|attempt| attempt.node == "n4") {
            attempt.last_sign = ms(DUE + 1_600);
            attempt.ended = Some((attempt.last_sign, 0));
        }
        let last = w.evidence.attempts.last_mut().unwrap();
        last.began = ms(DUE + began);
        reported_by(w, DUE + 1_700)
    };
    expect(
        "one more, after a fault that took the others from the daemon",
        &killed(1_100).evidence,
        &[],
    );
}

fn strict(expect: Expect<'_>) {
    expect("all of the strict queue first", &claimed(of(&[STRICT, SHARES.0])).evidence, &[]);
    let (strict, others) = (of(&[STRICT]), of(&[SHARES.0]));
    // The first of them start while none of the others is due.
    let early = ROOM;
    let between = || claimed([&strict[..early], &others[..1], &strict[early..]].concat());
    expect(
        "one of another queue before five of the strict one",
        &between().evidence,
        &[Verdict::Rank],
    );
    expect("the same, the node killed before", &hit(between(), 5).evidence, &[]);
    expect("the same, the node killed long before", &hit(between(), 19).evidence, &[Verdict::Rank]);
    let end = strict.len() - (ROOM - 1);
    let order = [&strict[..end], &others[..1], &strict[end..]].concat();
    expect("one of another queue in the round of the last two", &claimed(order).evidence, &[]);
    let mut late = between();
    for job in late.evidence.jobs.values_mut() {
        job.added = ms(DUE + 1_000);
    }
    expect("one of another queue first, all added when they were due already", &late.evidence, &[]);
}

fn priorities(expect: Expect<'_>) {
    let ranked = of(&[RANKED]);
    let (oldest, low, high) = (&ranked[..1], &ranked[1..8], &ranked[8..]);
    let after = |order: &[&[Job]]| claimed_from(order.concat(), DUE, STEP);
    expect(
        "the most urgent first, at the tenth start the oldest",
        &after(&[&high[..9], oldest, &high[9..], low]).evidence,
        &[],
    );
    let unranked = after(&[oldest, low, high]);
    expect("all by their due, whatever their priority", &unranked.evidence, &[Verdict::Rank]);
    expect("the same, the node killed before", &hit(after(&[oldest, low, high]), 5).evidence, &[]);
    let twice =
        after(&[&high[..5], &low[..1], &high[5..7], &low[1..2], &high[7..], oldest, &low[2..]]);
    expect("two less urgent ones within ten starts", &twice.evidence, &[Verdict::Rank]);
    let last = after(&[high, low, oldest]);
    expect("the oldest last, for its priority", &last.evidence, &[Verdict::Starved]);
    expect(
        "the oldest after thirteen",
        &after(&[high, &low[..3], oldest, &low[3..]]).evidence,
        &[],
    );
}

fn weights(expect: Expect<'_>) {
    let (heavy, light) = (of(&[SHARES.0]), of(&[SHARES.1]));
    expect(
        "three of one queue for each of the other",
        &claimed(mixed(heavy.clone(), light.clone(), 3)).evidence,
        &[],
    );
    let even = || claimed(mixed(heavy.clone(), light.clone(), 1));
    expect("one of each by turns", &even().evidence, &[Verdict::Rank]);
    expect("the same, the node killed before", &hit(even(), 5).evidence, &[]);
    expect(
        "the one queue first, and then the other",
        &claimed([heavy.clone(), light.clone()].concat()).evidence,
        &[Verdict::Rank],
    );
}

fn late(expect: Expect<'_>) {
    let one =
        |began: i64| claimed_from(of(&[SHARES.0]).into_iter().take(1).collect(), DUE + began, STEP);
    expect("begun by the small node when it was due", &one(800).evidence, &[]);
    expect(
        "begun late by the small node, which had nothing to do",
        &one(1_100).evidence,
        &[Verdict::Late],
    );
    let down = |w: World| w.fault(15, 26, Hit::Nodes(vec!["n4".into()]), Delay::AtBegin, true);
    expect("begun when the small node was back", &down(one(7_000)).evidence, &[]);
    let other = |w: World| w.fault(15, 26, Hit::Nodes(vec!["n2".into()]), Delay::AtBegin, true);
    expect("begun as late, another node down", &other(one(7_000)).evidence, &[Verdict::Late]);
    let full = |until: i64| {
        let mut w = claimed_from(of(&[SHARES.0]).into_iter().take(ROOM + 1).collect(), DUE, 1);
        let mut of_it: Vec<_> =
            w.evidence.attempts.iter_mut().filter(|attempt| attempt.node == "n4").collect();
        for attempt in &mut of_it[..ROOM] {
            (attempt.ended, attempt.last_sign) = (Some((ms(DUE + until), 0)), ms(DUE + until));
        }
        let last = of_it.last_mut().unwrap();
        (last.began, last.ended, last.last_sign) =
            (ms(DUE + 4_000), Some((ms(DUE + 4_100), 0)), ms(DUE + 4_100));
        reported_by(w, DUE + 4_200)
    };
    expect(
        "begun when one of those that filled the small node was over",
        &full(3_500).evidence,
        &[],
    );
    expect("begun more than a second after that", &full(2_900).evidence, &[Verdict::Late]);
}
