//! More histories for the checker's test of itself: faults with a named excuse, queues and
//! catch-up.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Delay, Excuse, Hit, KILLED, SECOND};
use crate::world::jobs::{Act, CROWD_SLOTS, Job, Overlap, Retried, crowded};
use crate::world::schedule::{Phase, When};

pub(crate) fn judge(expect: Expect<'_>) {
    forgotten(expect);
    hurt(expect);
    edited(expect);
    crowded_queue(expect);
    caught_up(expect);
}

fn id(due: i64) -> String {
    format!("a@{}", at(due) / 1000)
}

/// Redis lost its data of `name` at 21 s.
fn cut(w: World, name: &str) -> World {
    excuse(
        w.fault(21, 22, Hit::Everyone, Delay::Throughout, false),
        Excuse::Forgot([name.to_owned()].into()),
    )
}

fn excuse(mut w: World, excuse: Excuse) -> World {
    w.evidence.faults.last_mut().unwrap().excuse = Some(excuse);
    w
}

fn forgotten(expect: Expect<'_>) {
    let again = || World::calm().again(20, 3_000, 2);
    let settled = |late_ms| {
        let w =
            World::calm().begin(20, late_ms).fault(17, 18, Hit::Everyone, Delay::Throughout, false);
        excuse(w, Excuse::Forgot(["b@1".to_owned()].into()))
    };
    expect(
        "begun 5 s after, while nodes held their claims for a loss",
        &settled(5_000).evidence,
        &[],
    );
    expect(
        "begun 8 s after, when that was over",
        &settled(8_000).evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    expect(
        "done, its end lost with Redis' last bytes, begun again",
        &cut(again(), &id(20)).evidence,
        &[],
    );
    expect(
        "done, another's end lost, begun again",
        &cut(again(), &id(10)).evidence,
        &[Verdict::Dup],
    );
    let once = |name: &str| cut(again().job(|job| job.is_at_most_once = true), name);
    expect("at most once, its claim lost, begun again", &once(&id(20)).evidence, &[]);
    expect(
        "at most once, another's claim lost, begun again",
        &once(&id(10)).evidence,
        &[Verdict::Dup],
    );
    let both = || World::calm().cut(20).again(20, 3_000, 2).sign(20, 3_500);
    expect("its claim lost, begun beside itself", &cut(both(), &id(20)).evidence, &[]);
    expect(
        "another's lost, begun beside itself",
        &cut(both(), &id(10)).evidence,
        &[Verdict::Dup, Verdict::Overlap],
    );
    let one_shot = |name: &str| {
        let w = World::calm().forget(10).forget(20).forget(30).forget(40);
        cut(w.job(|job| job.phases[0].when = When::Once(at(20))), name)
    };
    expect("a one-shot lost with Redis' last bytes", &one_shot("a").evidence, &[]);
    expect("a one-shot forgotten, another lost", &one_shot("b").evidence, &[Verdict::Missing]);
    expect(
        "a due forgotten though its job comes again",
        &cut(World::calm().forget(20), "a").evidence,
        &[Verdict::Missing],
    );
    let older = |name: &str| {
        let mut w = World::calm().cut(20).again(20, 1_200, 2);
        w.evidence.attempts.last_mut().unwrap().ended = None;
        let w = w.recorded(20, |run| (run.attempt, run.fence) = (1, Some(3)));
        let w = w.job(|job| job.act = Act::Poison).recorded(20, |run| run.state = "failed".into());
        let w = w
            .forget(10)
            .forget(30)
            .forget(40)
            .job(|job| (job.phases[0].sure_from, job.phases[0].sure_to) = (at(15), at(25)));
        cut(w.recorded(20, |run| run.reason = "poison".into()), name)
    };
    expect(
        "its last claim lost, its end recorded under the one before",
        &older(&id(20)).evidence,
        &[],
    );
    expect(
        "another's claim lost",
        &older(&id(10)).evidence,
        &[Verdict::Dup, Verdict::Stale, Verdict::Silent],
    );
    let unknown = |name: &str| {
        let mut w = World::calm();
        w.evidence.history.retain(|recorded| recorded.run.due != at(20));
        cut(w, name)
    };
    expect("begun, all of it lost", &unknown(&id(20)).evidence, &[]);
    expect("begun, not in history, another lost", &unknown(&id(10)).evidence, &[Verdict::Silent]);
}

fn hurt(expect: Expect<'_>) {
    let killed = |reason: &str| {
        World::calm().code(20, KILLED).recorded(20, |run| {
            (run.state, run.reason) = ("failed".into(), reason.into());
        })
    };
    expect("killed from outside, recorded so", &killed("signal 9 (KILL)").evidence, &[]);
    expect(
        "killed from outside, recorded otherwise",
        &killed("exit 1").evidence,
        &[Verdict::Missing],
    );
    let w = killed("signal 9 (KILL)").job(|job| job.retries = 1);
    expect("killed from outside, with a retry left", &w.evidence, &[Verdict::Missing]);
    let excluded =
        |reason| killed(reason).job(|job| (job.retries, job.retried) = (1, Retried::On(&[3])));
    let reason = "not retried, because retry.on does not list code 137, signal 9 (KILL)";
    expect("killed from outside, and its code is not retried", &excluded(reason).evidence, &[]);
    expect(
        "killed from outside, and the reason names no signal",
        &excluded("not retried").evidence,
        &[Verdict::Missing],
    );
    let w = World::calm().code(20, KILLED).again(20, 1_700, 2).job(|job| job.retries = 1);
    expect("killed from outside and tried again", &w.evidence, &[]);
    let w = World::calm().code(20, KILLED).again(20, 1_700, 2);
    expect("killed from outside and tried again without a retry", &w.evidence, &[Verdict::Dup]);

    let unstarted =
        || World::calm().end(20, "failed", "cannot start: /bin/bash: Too many open files");
    let limited = |from| {
        let w = unstarted().fault(
            from,
            from + 5,
            Hit::Nodes(vec!["n1".into()]),
            Delay::Brief(SECOND),
            false,
        );
        excuse(w, Excuse::CannotStart("Too many open files"))
    };
    expect("not started for want of files", &limited(18).evidence, &[]);
    expect(
        "not started for want of files, when there was none",
        &limited(30).evidence,
        &[Verdict::Missing],
    );

    let replacing = || World::calm().work(10, 9_000).job(|job| job.overlap = Overlap::Replace);
    let w = replacing().end(20, "skipped", "overlap");
    expect(
        "skipped for an overlap, where the newest is to take over",
        &w.evidence,
        &[Verdict::Missing],
    );
    let replaced = |at_ms: i64| {
        let w = replacing().cut(10);
        w.recorded(10, |run| {
            (run.state, run.reason, run.finished) =
                ("cancelled".into(), "replaced".into(), Some(at(0) + at_ms * 1000));
        })
    };
    expect("replaced by the next", &replaced(20_001).evidence, &[]);
    expect("replaced before the next was due", &replaced(19_999).evidence, &[Verdict::Missing]);

    let behind = || {
        let w = World::calm()
            .work(10, 9_000)
            .begin(20, 5_000)
            .job(|job| job.overlap = Overlap::Replace);
        w.fault(18, 19, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true)
    };
    let lost = behind().cut(10).recorded(10, |run| {
        (run.state, run.reason, run.finished) =
            ("cancelled".into(), "replaced".into(), Some(at(24)));
    });
    expect("begun 5 s after, behind one lost with its node", &lost.evidence, &[]);
    expect(
        "begun 5 s after, behind one that was done",
        &behind().evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let unbegun = |attempt| {
        let w = World::calm()
            .end(10, "cancelled", "replaced")
            .begin(20, 3_000)
            .job(|job| job.overlap = Overlap::Replace);
        let w = w.fault(9, 18, Hit::Everyone, Delay::Throughout, true);
        w.recorded(10, |run| (run.attempt, run.finished) = (attempt, Some(at(23))))
    };
    expect(
        "begun 3 s after, behind one that all nodes died with before it could begin",
        &unbegun(1).evidence,
        &[],
    );
    expect(
        "the same, and it was never claimed",
        &unbegun(0).evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let watched = |from| {
        let w = World::calm().cut(20).again(20, 12_000, 2).fault(
            20,
            40,
            Hit::Nodes(vec!["n1".into()]),
            Delay::AtBegin,
            true,
        );
        let w = w.fault(22, 23, Hit::Nodes(vec!["n2".into()]), Delay::AtBegin, true);
        w.fault(from, from + 1, Hit::Nodes(vec!["n3".into()]), Delay::AtBegin, true)
    };
    expect(
        "taken back 12 s after, when each of the others had died and begun to watch anew",
        &watched(24).evidence,
        &[],
    );
    expect(
        "the same, and one of the others had watched all the time",
        &watched(45).evidence,
        &[Verdict::Late],
    );
    let frozen = |from, to| {
        World::calm().work(10, 7_000).fault(
            from,
            to,
            Hit::Nodes(vec!["n1".into()]),
            Delay::AtBegin,
            true,
        )
    };
    let failed_notices = |from, to| {
        let w = frozen(from, to).begin(20, 3_000).job(|job| job.overlap = Overlap::Replace);
        w.recorded(10, |run| {
            (run.state, run.reason, run.finished) =
                ("cancelled".into(), "replaced".into(), Some(at(23)))
        })
    };
    expect(
        "begun 3 s after, behind one whose node stood still as it ended",
        &failed_notices(15, 30).evidence,
        &[],
    );
    expect(
        "the same, and it stood still only before",
        &failed_notices(10, 12).evidence,
        &[Verdict::Late, Verdict::Drift],
    );

    let remains = |ms| World::calm().sign(20, ms).job(|job| job.overlap = Overlap::Allow);
    expect("a process that lived 2.9 s after its job", &remains(3_400).evidence, &[]);
    expect("a process that lived 3.1 s after its job", &remains(3_620).evidence, &[Verdict::Leak]);
    let deaf = |ms| {
        let w =
            World::calm().cut(20).sign(20, ms).recorded(20, |run| run.state = "timed_out".into());
        let mut w = w.job(|job| (job.act, job.timeout) = (Act::Deaf, 2 * SECOND));
        w.evidence.history.retain(|run| run.run.due == at(20));
        w.evidence.attempts.retain(|attempt| attempt.run.due == at(20));
        w.job(|job| (job.phases[0].sure_from, job.phases[0].sure_to) = (at(15), at(25)))
    };
    expect("deaf to TERM, killed in time", &deaf(4_900).evidence, &[]);
    expect("deaf to TERM, killed too late", &deaf(5_100).evidence, &[Verdict::Leak]);
    let w = World::calm().recorded(20, |run| run.state = "timed_out".into());
    expect("timed out, with nearly all of its time left", &w.evidence, &[Verdict::Missing]);
}

/// This many runs of the queue are due at 10 s, begin together and work for a tenth of a second.
/// One more is due at 11 s.
fn crowd(count: usize, later_began_ms: i64) -> World {
    let mut w = World::calm();
    for number in 0..=count {
        let name = format!("crowd-{number}");
        let (due, began) = if number == count {
            (11, at(10) + later_began_ms * 1000)
        } else {
            (10, at(10) + 900_000)
        };
        w.evidence.jobs.insert(name.clone(), crowded(&name, at(due)));
        w.done(at(due), 100 + number as u64);
        let run = crate::evidence::RunName::parse(&format!("{name}@{}", at(due) / 1000)).unwrap();
        let recorded = w.evidence.history.last_mut().unwrap();
        (recorded.run, recorded.finished) = (run.clone(), Some(began + SECOND / 5));
        let attempt = w.evidence.attempts.last_mut().unwrap();
        (attempt.run, attempt.began) = (run, began);
        (attempt.ended, attempt.last_sign) = (Some((began + SECOND / 10, 0)), began + SECOND / 10);
    }
    w
}

fn edited(expect: Expect<'_>) {
    // At 21 s the job is edited to each half minute. The run due at 10 s begins at `began`; the run
    // due at 20 s never begins.
    let edited = |began: i64| {
        let phase = Phase {
            when: When::Seconds(30),
            sure_from: at(22),
            sure_to: at(45),
            maybe_from: at(21),
            maybe_to: at(46),
        };
        let w = World::calm().forget(20).forget(40).begin(10, (began - 10) * 1000).job(|job| {
            (job.phases[0].sure_to, job.phases[0].maybe_to) = (at(21), at(22));
            job.phases.push(phase);
        });
        w.fault(5, 24, Hit::Everyone, Delay::Throughout, true)
    };
    expect("left out by an edit that found an older one due", &edited(24).evidence, &[]);
    expect(
        "left out before an edit that found none due",
        &edited(19).evidence,
        &[Verdict::Missing],
    );
}

fn crowded_queue(expect: Expect<'_>) {
    expect("as many at once as a queue has slots", &crowd(CROWD_SLOTS, 1_500).evidence, &[]);
    expect("one more at once", &crowd(CROWD_SLOTS + 1, 1_500).evidence, &[Verdict::Overlap]);
    let mut w = crowd(1, 1_500);
    let late = w.evidence.attempts.iter_mut().find(|attempt| attempt.run.job == "crowd-0").unwrap();
    late.began = at(12) + SECOND * 7 / 10;
    (late.ended, late.last_sign) = (Some((at(13), 0)), at(13));
    w.evidence
        .history
        .iter_mut()
        .filter(|run| run.run.job == "crowd-0")
        .for_each(|run| run.finished = Some(at(13)));
    expect("overtaken in its queue by one due later", &w.evidence, &[Verdict::Late]);
    w.evidence.shards = 2;
    // The other run has the slot until just before.
    let other =
        w.evidence.attempts.iter_mut().find(|attempt| attempt.run.job == "crowd-1").unwrap();
    (other.ended, other.last_sign) = (Some((at(12), 0)), at(12));
    for shard in [0, 1] {
        for run in w.evidence.history.iter_mut().filter(|run| run.run.job.starts_with("crowd-")) {
            run.finished = Some(at(13));
            run.shard = Some(if run.run.job == "crowd-0" { shard } else { 0 });
        }
        let wanted: &[Verdict] = if shard == 0 { &[Verdict::Late] } else { &[] };
        expect("overtaken, from shard 0 or 1, by one of shard 0 due later", &w.evidence, wanted);
    }
}

/// A job of each second from 5 s to 45 s, whose nodes are down from 10 s to 28 s.
/// It continues at 28.3 s with the run due at `first`, after a skipped range recorded with `count`.
fn down(catch_up: &'static str, most: i64, first: i64, count: u64) -> World {
    let mut w = World::calm().forget(10).forget(20).forget(30).forget(40);
    let when = When::Every { period: 1, anchor: (at(0), at(0)) };
    let phase =
        Phase { when, sure_from: at(5), sure_to: at(45), maybe_from: at(0), maybe_to: at(46) };
    let job =
        Job { phases: vec![phase], catch_up, max_count: Some(most), ..Job::new("a", Act::Work, 0) };
    w.evidence.jobs.insert("a".into(), Job { overlap: Overlap::Allow, ..job });
    let dues = (5..10).chain(first..45);
    for (fence, due) in dues.enumerate() {
        w.done(at(due), 2 + fence as u64);
        let began = at(28) + 300_000;
        if due >= first && at(due) < began {
            w = w.begin(due, (began - at(due)) / 1000);
        }
    }
    if count > 0 {
        w.done(at(10), 1);
        w.evidence.attempts.retain(|attempt| attempt.run.due != at(10));
        let skipped_range = Some((at(first - 1), count));
        w = w.recorded(10, |run| {
            (run.state, run.reason, run.skipped_range) =
                ("skipped".into(), "missed".into(), skipped_range);
            run.finished = Some(at(28) + 200_000);
        });
    }
    let w = w.fault(4, 46, Hit::Everyone, Delay::Throughout, true);
    excuse(w, Excuse::AllDown)
}

fn caught_up(expect: Expect<'_>) {
    expect("down, the newest run", &down("latest", 1, 28, 18).evidence, &[]);
    expect(
        "down, the two newest run though one is to be",
        &down("latest", 1, 27, 17).evidence,
        &[Verdict::Drift],
    );
    expect("down, the five newest run", &down("all", 5, 24, 14).evidence, &[]);
    expect(
        "down, six run though five are to be",
        &down("all", 5, 23, 13).evidence,
        &[Verdict::Drift],
    );
    expect(
        "down, four run though five are to be",
        &down("all", 5, 25, 15).evidence,
        &[Verdict::Drift],
    );
    expect("down, none run", &down("skip", 0, 29, 19).evidence, &[]);
    expect(
        "down, none to be run, and four were",
        &down("skip", 0, 25, 15).evidence,
        &[Verdict::Drift],
    );
    let w = down("latest", 1, 28, 17);
    expect(
        "down, the skipped counted as one less",
        &w.evidence,
        &[Verdict::Missing, Verdict::Drift],
    );
    let w = down("skip", 0, 28, 18);
    expect("down, none to be run, and the newest was young enough", &w.evidence, &[]);
}
