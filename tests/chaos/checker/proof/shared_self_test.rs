//! Histories of shared things, for the checker's test of itself: for each verdict one that must
//! raise it and one that must not.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Delay, Doing, Excuse, Hit, Operation, RunName};
use crate::world::jobs::{Act, Job};
use crate::world::schedule::{Phase, When};
use crate::world::sharing::{Key, LABEL, ORDER, PACED, Rate, Sharing};

pub(crate) fn judge(expect: Expect<'_>) {
    above(expect);
    turns(expect);
    gaps(expect);
    bursts(expect);
    starved(expect);
    late(expect);
    uniques(expect);
}

/// Adds a job due once at `due`, which ran from the first to the second of `times`, all in
/// milliseconds after the start.
fn ran(mut w: World, name: &str, sharing: Sharing, due: i64, times: (i64, i64)) -> World {
    let ms = |ms: i64| at(0) + ms * 1000;
    let (due, began, ended) = (ms(due), ms(times.0), ms(times.1));
    if !w.evidence.jobs.contains_key(name) {
        let job = Job::new(name, Act::Work, 100).due(When::Once(due)).owed();
        w.evidence.jobs.insert(name.to_owned(), Job { sharing, ..job });
    } else if let Some(job) = w.evidence.jobs.get_mut(name) {
        let phase = Phase { when: When::Once(due), ..job.phases[0].clone() };
        job.phases.push(phase);
    }
    let fence = 100 + u64::try_from(w.evidence.attempts.len()).unwrap();
    w.done(due, fence);
    let run = RunName::parse(&format!("{name}@{}", due / 1000)).unwrap();
    let recorded = w.evidence.history.last_mut().unwrap();
    (recorded.run, recorded.finished) = (run.clone(), Some(ended + 5_000));
    let attempt = w.evidence.attempts.last_mut().unwrap();
    (attempt.run, attempt.began, attempt.ended, attempt.last_sign) =
        (run, began, Some((ended, 0)), ended);
    w
}

/// Makes the last run wait from this time on, in milliseconds after the start.
fn waited(mut w: World, from: i64) -> World {
    w.evidence.history.last_mut().unwrap().waited_from = Some(at(0) + from * 1000);
    w
}

fn excuse(mut w: World, excuse: Excuse) -> World {
    w.evidence.faults.last_mut().unwrap().excuse = Some(excuse);
    w
}

fn group(name: &'static str) -> Sharing {
    Sharing { group: Some(name), ..Sharing::default() }
}

fn queue(name: &'static str) -> Sharing {
    Sharing { queue: Some(name), ..Sharing::default() }
}

fn key(at_once: usize, rate: Option<Rate>) -> Sharing {
    Sharing { key: Some(Key { name: "k", at_once, rate }), ..Sharing::default() }
}

fn above(expect: Expect<'_>) {
    let two = |a: Sharing, b: Sharing, began| {
        let w = ran(World::calm(), "first", a, 10_000, (10_050, 10_500));
        ran(w, "second", b, 10_100, (began, began + 300))
    };
    expect(
        "one of a group after the other",
        &two(group("alone"), group("alone"), 10_500).evidence,
        &[],
    );
    expect(
        "two of a group at once",
        &two(group("alone"), group("alone"), 10_499).evidence,
        &[Verdict::Above],
    );
    expect("two of two groups at once", &two(group("alone"), group("other"), 10_400).evidence, &[]);
    let frozen = |may_overlap| {
        let w = two(group("alone"), group("alone"), 10_400).fault(
            9,
            11,
            Hit::Nodes(vec!["n1".into()]),
            Delay::AtBegin,
            true,
        );
        let mut w = w;
        w.evidence.faults[0].harm.may_overlap = may_overlap;
        w
    };
    expect("two of a group at once, the first on a frozen host", &frozen(true).evidence, &[]);
    expect("the same, its daemon stopped alone", &frozen(false).evidence, &[Verdict::Above]);
    let lost = |name: &str| {
        let w = two(group("alone"), group("alone"), 10_400).fault(
            9,
            10,
            Hit::Everyone,
            Delay::Throughout,
            false,
        );
        excuse(w, Excuse::Forgot([name.to_owned()].into()))
    };
    expect(
        "two of a group at once, the claim of the first lost",
        &lost(&format!("first@{}", at(10) / 1000)).evidence,
        &[],
    );
    expect(
        "two of a group at once, another's claim lost",
        &lost("other").evidence,
        &[Verdict::Above],
    );
    expect(
        "two of a key that allows one",
        &two(key(1, None), key(1, None), 10_400).evidence,
        &[Verdict::Above],
    );
    expect(
        "two of a key, of which the second allows two",
        &two(key(1, None), key(2, None), 10_400).evidence,
        &[],
    );
    let beside = |a: &'static str, b: Option<&'static str>| {
        let not_while = |other| Sharing { not_while: other, ..Sharing::default() };
        let w = ran(
            World::calm(),
            a,
            not_while((a == "report").then_some("backup")),
            10_000,
            (10_050, 10_500),
        );
        ran(w, if b.is_some() { "other" } else { "backup" }, not_while(b), 10_100, (10_400, 10_700))
    };
    expect(
        "one beside the job it is not to run with",
        &beside("backup", Some("backup")).evidence,
        &[Verdict::Above],
    );
    expect(
        "the job beside one that is not to run with it",
        &beside("report", None).evidence,
        &[Verdict::Above],
    );
    expect("two that are not to run with a third", &beside("report", Some("backup")).evidence, &[]);
    let narrow = |third| {
        ran(
            two(queue("narrow"), queue("narrow"), 10_400),
            "third",
            queue("narrow"),
            10_200,
            (third, 10_900),
        )
    };
    expect("a third of a queue when there were two", &narrow(10_499).evidence, &[Verdict::Above]);
    expect("a third of a queue when there was one", &narrow(10_500).evidence, &[]);
    let labelled = |node: &str| {
        let requires = Sharing { requires: Some(LABEL), ..Sharing::default() };
        let mut w = ran(World::calm(), "labelled", requires, 10_000, (10_050, 10_500));
        node.clone_into(&mut w.evidence.attempts.last_mut().unwrap().node);
        w
    };
    expect("on a node with the label it requires", &labelled("n1").evidence, &[]);
    expect("on a node without", &labelled("n3").evidence, &[Verdict::Above]);
    // A run that node n1 begins 11 s late, while `stopped` was stopped.
    let late = |carriers: &[&str], stopped: &str| {
        let requires = Sharing { requires: Some(LABEL), ..Sharing::default() };
        let w = ran(World::calm(), "labelled", requires, 11_000, (22_050, 22_500));
        let hit = Hit::Nodes(vec![stopped.to_owned()]);
        let mut w = w.fault(11, 22, hit, Delay::AtBegin, true);
        w.evidence.labelled = carriers.iter().map(ToString::to_string).collect();
        w
    };
    expect(
        "late on the only node with the label, which was stopped",
        &late(&["n1"], "n1").evidence,
        &[],
    );
    expect(
        "late on the only node with the label, not stopped",
        &late(&["n1"], "n2").evidence,
        &[Verdict::Late],
    );
    expect(
        "late on one of two nodes with the label, both might",
        &late(&["n1", "n2"], "n1").evidence,
        &[Verdict::Late],
    );
}

/// The first member ran, then the third, then the second, which was due at `due` and waited from
/// `from`.
fn passed_over(due: i64, from: Option<i64>) -> World {
    let w = ran(World::calm(), ORDER[0], group("turns"), 10_000, (10_050, 10_400));
    let w = ran(w, ORDER[2], group("turns"), 10_000, (10_950, 11_200));
    let w = ran(w, ORDER[1], group("turns"), due, (11_750, 12_000));
    match from {
        Some(from) => waited(w, from),
        None => w,
    }
}

fn turns(expect: Expect<'_>) {
    expect(
        "passed over though it waited",
        &passed_over(10_000, Some(10_060)).evidence,
        &[Verdict::Turn],
    );
    expect("passed over when it came after that", &passed_over(10_300, Some(10_410)).evidence, &[]);
    expect("passed over, due a moment before", &passed_over(10_300, None).evidence, &[]);
    expect("passed over, due long before", &passed_over(9_300, None).evidence, &[Verdict::Turn]);
    let everyone = || passed_over(9_300, None).fault(9, 10, Hit::Everyone, Delay::Throughout, true);
    expect("passed over, due before while nodes were away", &everyone().evidence, &[]);
    let again = |from| {
        let w = ran(World::calm(), ORDER[0], group("turns"), 10_000, (10_050, 10_300));
        let w = ran(w, ORDER[0], group("turns"), 10_500, (10_850, 11_000));
        waited(ran(w, ORDER[1], group("turns"), 10_000, (11_550, 11_800)), from)
    };
    expect("twice the same while another waited", &again(10_060).evidence, &[Verdict::Turn]);
    expect("twice the same when no other waited", &again(10_400).evidence, &[]);
    let lost = |due: i64| {
        let w =
            passed_over(due, Some(due + 60)).fault(10, 11, Hit::Everyone, Delay::Throughout, false);
        excuse(w, Excuse::Forgot(["other".to_owned()].into()))
    };
    expect("passed over when Redis had lost whose turn it was", &lost(10_000).evidence, &[]);
}

fn gaps(expect: Expect<'_>) {
    let after = |began| {
        let w = ran(World::calm(), ORDER[0], group("turns"), 10_000, (10_050, 10_400));
        ran(w, ORDER[1], group("turns"), 10_000, (began, began + 200))
    };
    expect("begun when the gap was over", &after(10_900).evidence, &[]);
    expect("begun a millisecond before", &after(10_899).evidence, &[Verdict::Gap]);
    let alone = ran(
        ran(World::calm(), "a1", group("alone"), 10_000, (10_050, 10_400)),
        "a2",
        group("alone"),
        10_000,
        (10_410, 10_500),
    );
    expect("begun at once in a group without a gap", &alone.evidence, &[]);
}

/// This many runs of the queue `paced` are due at 10 s. The first ones begin at once, the others
/// `step` milliseconds apart.
fn paced(count: i64, at_once: i64, step: i64) -> World {
    (0..count).fold(World::calm(), |w, number| {
        let began = 10_020 + (number - at_once + 1).max(0) * step;
        ran(w, &format!("paced-{number}"), queue("paced"), 10_000, (began, began + 50))
    })
}

fn bursts(expect: Expect<'_>) {
    let (burst, step) = (PACED.burst, PACED.interval() / 1000);
    expect("a burst, and then by the rate", &paced(9, burst, step).evidence, &[]);
    expect(
        "two more at once than the burst",
        &paced(9, burst + 2, step).evidence,
        &[Verdict::Burst],
    );
    expect(
        "a burst, and then faster than the rate",
        &paced(12, burst, step / 2).evidence,
        &[Verdict::Burst],
    );
    let lost = || {
        excuse(
            paced(5, 5, step).fault(10, 10, Hit::Everyone, Delay::Throughout, false),
            Excuse::Forgot([].into()),
        )
    };
    expect("two more at once, when Redis had lost the count", &lost().evidence, &[]);
    // Runs that were claimed by the rate while nodes stood still begin together.
    let mut w = World::calm();
    for number in 0..6 {
        let began = 13_000 + number * 10;
        w = ran(w, &format!("paced-{number}"), queue("paced"), 10_000, (began, began + 50));
        w.evidence.history.last_mut().unwrap().started =
            Some(at(0) + (10_010 + (number - 2).max(0) * 600) * 1000);
    }
    let still = |w: World| w.fault(9, 13, Hit::Everyone, Delay::Throughout, true);
    expect("claimed by the rate, begun together after a stand", &still(w).evidence, &[]);
    // Three runs were claimed at once as the burst, but began together with runs that were claimed
    // later by the rate.
    let slow = |claimed: i64| {
        (0..7).fold(World::calm(), |w, number| {
            let (from, began) = if number < 3 {
                (claimed, 10_900 + number)
            } else {
                (9_000 + number * 500, 9_050 + number * 500)
            };
            let mut w = ran(
                w,
                &format!("paced-{number}"),
                queue("paced"),
                10_000,
                (began.max(10_050), began.max(10_050) + 50),
            );
            w.evidence.history.last_mut().unwrap().started = Some(at(0) + from.max(10_010) * 1000);
            w
        })
    };
    expect("claimed by the rate, and begun late", &slow(10_010).evidence, &[]);
    expect("begun the same, and claimed just before", &slow(10_890).evidence, &[Verdict::Burst]);
    let by_key = |step: i64| {
        let rate = Rate { count: 2, seconds: 1, burst: 1 };
        (0..6).fold(World::calm(), |w, number| {
            let began = 10_020 + number * step;
            ran(w, &format!("k-{number}"), key(9, Some(rate)), 10_000, (began, began + 50))
        })
    };
    expect("those of a key by its rate", &by_key(500).evidence, &[]);
    expect("those of a key beyond its rate", &by_key(250).evidence, &[Verdict::Burst]);
}

fn starved(expect: Expect<'_>) {
    let taken_away = |end: i64| {
        let w = ran(World::calm(), "a1", group("alone"), 10_000, (10_050, 10_900));
        let mut w = waited(ran(w, "a2", group("alone"), 10_100, (11_000, 11_200)), 10_150);
        w.evidence.attempts.pop();
        let run = w.evidence.history.last_mut().unwrap();
        (run.state, run.reason, run.finished) =
            ("cancelled".into(), "job removed".into(), Some(at(0) + end * 1000));
        let job = w.evidence.jobs.get_mut("a2").unwrap();
        job.phases[0].sure_to = at(11);
        w
    };
    expect("taken away just after its group was free", &taken_away(11_850).evidence, &[]);
    expect("taken away, its group long free", &taken_away(12_000).evidence, &[Verdict::Starved]);
    let backfilled = |asked: i64| {
        let mut w = taken_away(11_850);
        let mut again = w.evidence.history.last().unwrap().clone();
        let run = &mut again.run;
        (run.id, run.is_manual) = (format!("a2@{}~backfill", run.due / 1000), true);
        again.finished = Some(at(14));
        w.evidence.history.push(again);
        let asked = at(0) + asked * 1000;
        let what = Doing::Backfilled("a2".into());
        w.evidence.operations.push(Operation { from: asked, to: asked + 100_000, what });
        w
    };
    expect("backfilled just before it was taken away", &backfilled(13_500).evidence, &[]);
    expect("backfilled long before", &backfilled(10_200).evidence, &[Verdict::Starved]);
    let overtaken = |from: i64, sharing: fn() -> Sharing| {
        let w = ran(World::calm(), "a1", sharing(), 10_000, (10_050, 10_900));
        let w = ran(w, "a3", sharing(), 10_200, (10_950, 11_200));
        waited(ran(w, "a2", sharing(), 10_100, (11_250, 11_400)), from)
    };
    expect(
        "due later, and let in before",
        &overtaken(10_150, || group("alone")).evidence,
        &[Verdict::Starved],
    );
    expect("due later, and there before", &overtaken(10_920, || group("alone")).evidence, &[]);
    let mut w = overtaken(10_150, || key(2, None));
    w.evidence.history.last_mut().unwrap().let_in = Some(at(0) + 10_100_000);
    expect("of a key, let in before a run due later, and begun after it", &w.evidence, &[]);
    expect(
        "of a key, due later, and let in before",
        &overtaken(10_150, || key(1, None)).evidence,
        &[Verdict::Starved],
    );
    expect(
        "of a queue, whatever is due later",
        &overtaken(10_150, || queue("narrow")).evidence,
        &[],
    );
}

fn late(expect: Expect<'_>) {
    let behind = |began: i64| {
        let w = ran(World::calm(), "a1", group("alone"), 10_000, (10_050, 13_000));
        ran(w, "a2", group("alone"), 10_100, (began, began + 100))
    };
    expect("late by what it waited for in its group", &behind(13_900).evidence, &[]);
    expect("later than that", &behind(14_100).evidence, &[Verdict::Late]);
    let beside = |name: &'static str| {
        let w = ran(World::calm(), "a1", group("alone"), 10_000, (10_050, 13_000));
        ran(w, "a2", group(name), 10_100, (13_900, 14_000))
    };
    expect("late by what another group waited for", &beside("other").evidence, &[Verdict::Late]);
    let patient = |began: i64| {
        let w = ran(World::calm(), ORDER[0], group("turns"), 10_000, (10_050, 10_400));
        ran(w, ORDER[2], group("turns"), 10_000, (began, began + 100))
    };
    expect("late by the gap and the turn_timeout with two others", &patient(15_800).evidence, &[]);
    expect("later than any turn_timeout", &patient(16_000).evidence, &[Verdict::Late]);
    let unbegun = |number: u32, name: &'static str| {
        let mut w = ran(World::calm(), "a1", group("alone"), 10_000, (17_300, 17_800));
        w.evidence.attempts.last_mut().unwrap().number = number;
        w.evidence.history.last_mut().unwrap().attempt = number;
        let w = ran(w, "a2", group(name), 12_000, (16_900, 17_200));
        w.fault(10, 11, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true)
    };
    expect(
        "late by a run of its group that was lost with its node before it could begin",
        &unbegun(2, "alone").evidence,
        &[],
    );
    expect(
        "the same, and that run was of another group",
        &unbegun(2, "other").evidence,
        &[Verdict::Late],
    );
}

fn uniques(expect: Expect<'_>) {
    let of = |key| Sharing { unique: Some(key), ..Sharing::default() };
    let two = |key, began| {
        let w = ran(World::calm(), "first", of("k"), 10_000, (10_050, 10_500));
        ran(w, "second", of(key), 10_100, (began, began + 300))
    };
    expect("two of a unique key one after the other", &two("k", 10_500).evidence, &[]);
    expect("two of a unique key at once", &two("k", 10_499).evidence, &[Verdict::Above]);
    expect("two of two unique keys at once", &two("other", 10_499).evidence, &[]);
    let lost = || {
        excuse(
            two("k", 10_400).fault(9, 11, Hit::Everyone, Delay::Throughout, false),
            Excuse::Forgot([].into()),
        )
    };
    expect(
        "two of a unique key at once, when Redis had lost what it had written",
        &lost().evidence,
        &[],
    );
}
