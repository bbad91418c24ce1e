//! The checker's test of itself, run at each start.
//! Each verdict has one history that must raise it, and one that is as similar as possible and must
//! not.
//! A checker that misjudges one proves nothing, so no trial runs then.

use std::collections::BTreeMap;

use crate::checker::{Verdict, check};
use crate::evidence::{
    Attempt, Delay, Doing, Evidence, Harm, Hit, Inflicted, Micros, Operation, Reach, Recorded,
    RunName, SECOND, Timing,
};
use crate::world::jobs::{Act, Check, Job, Overlap, Retried};
use crate::world::schedule::{Phase, When};

/// Judges every history and returns how many there are. Panics if one is misjudged.
pub(crate) fn run() -> usize {
    let mut count = 0;
    let mut misjudged = Vec::new();
    let mut expect = |story: &str, evidence: &Evidence, wanted: &[Verdict]| {
        let mut found: Vec<Verdict> =
            check(evidence).into_iter().map(|finding| finding.verdict).collect();
        found.dedup();
        if found != wanted {
            misjudged.push(format!("{story}: found {found:?}, wanted {wanted:?}"));
        }
        count += 1;
    };
    expect("a job every ten seconds, done each time", &World::calm().evidence, &[]);
    owed(&mut expect);
    timed(&mut expect);
    repeated(&mut expect);
    written(&mut expect);
    counted(&mut expect);
    super::hard_self_test::judge(&mut expect);
    super::shared_self_test::judge(&mut expect);
    super::small_self_test::judge(&mut expect);
    super::wrong_self_test::judge(&mut expect);
    super::each_node_self_test::judge(&mut expect);
    super::chain_self_test::judge(&mut expect);
    super::workers_self_test::judge(&mut expect);
    assert!(misjudged.is_empty(), "the checker misjudges\n{}", misjudged.join("\n"));
    count
}

pub(crate) type Expect<'a> = &'a mut dyn FnMut(&str, &Evidence, &[Verdict]);

fn owed(expect: Expect<'_>) {
    let w = World::calm().forget(20);
    expect("a due of which nothing is known", &w.evidence, &[Verdict::Missing]);
    let w = World::calm().job(|job| job.phases[0].sure_to = at(15)).forget(20);
    expect("the same, after the job was taken away", &w.evidence, &[]);
    let w = World::calm().end(20, "skipped", "overlap");
    expect("skipped for an overlap with nothing", &w.evidence, &[Verdict::Missing]);
    let w = World::calm().work(10, 10_500).end(20, "skipped", "overlap");
    expect("skipped for an overlap with a longer run", &w.evidence, &[]);
    let asking = || {
        World::calm()
            .end(20, "skipped", "overlap")
            .recorded(10, |run| run.finished = Some(at(20) + SECOND / 5))
    };
    expect(
        "skipped for an overlap with one that had ended, whatever is recorded",
        &asking().evidence,
        &[Verdict::Missing],
    );
    let w = asking().job(|job| job.check = Check::Always);
    expect("skipped for an overlap with one whose check was asked again", &w.evidence, &[]);
    let w = World::calm().end(20, "skipped", "missed");
    expect("missed for nothing", &w.evidence, &[Verdict::Missing]);
    let w = World::calm().end(20, "skipped", "missed").fault(
        15,
        30,
        Hit::Everyone,
        Delay::Throughout,
        true,
    );
    expect("missed while Redis was out", &w.evidence, &[]);
    let w = World::calm().end(20, "skipped", "paused");
    expect("paused by nobody", &w.evidence, &[Verdict::Missing]);
    let mut w = World::calm().end(20, "skipped", "paused");
    w.evidence.operations.push(Operation {
        from: at(15),
        to: at(22),
        what: Doing::Paused("a".into()),
    });
    expect("paused by a person", &w.evidence, &[]);
    let w = World::calm().end(20, "lost", "").job(|job| job.is_at_most_once = true);
    expect("lost for nothing", &w.evidence, &[Verdict::Missing]);
    let w = World::calm().end(20, "lost", "").job(|job| job.is_at_most_once = true);
    let w = w.fault(20, 21, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect("lost with its node, at most once", &w.evidence, &[]);
    let w = World::calm().end(20, "lost", "").fault(
        20,
        21,
        Hit::Nodes(vec!["n1".into()]),
        Delay::AtBegin,
        true,
    );
    expect("lost with its node, though at least once", &w.evidence, &[Verdict::Missing]);
    let w = World::calm().end(20, "cancelled", "cancelled");
    expect("cancelled by nobody", &w.evidence, &[Verdict::Missing]);
    let mut w = World::calm();
    w.evidence.operations.push(Operation {
        from: at(5),
        to: at(6),
        what: Doing::Ran(format!("a@{}~x", at(5) / 1000)),
    });
    expect("a run by hand that was accepted and forgotten", &w.evidence, &[Verdict::Missing]);
}

// A start outside its window is found by its run's id, and again by the times alone.
fn timed(expect: Expect<'_>) {
    let w = World::calm().begin(20, 1_500);
    expect("begun late in a calm", &w.evidence, &[Verdict::Late, Verdict::Drift]);
    let w = World::calm().begin(20, 1_500).job(|job| job.check = Check::Always);
    expect("the same, after a check", &w.evidence, &[]);
    expect(
        "begun before it was due",
        &World::calm().begin(20, -2).evidence,
        &[Verdict::Early, Verdict::Drift],
    );
    expect("begun 0.9 s after it was due", &World::calm().begin(20, 900).evidence, &[]);
    expect(
        "begun 1.1 s after it was due",
        &World::calm().begin(20, 1_100).evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let late = || World::calm().begin(20, 7_000);
    let w = late().fault(20, 29, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect("begun 7 s after, its node killed as it was due", &w.evidence, &[]);
    let w = late().fault(15, 19, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect(
        "begun 7 s after, a node killed 5 s before",
        &w.evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let w = late().fault(20, 29, Hit::Nodes(vec!["n2".into()]), Delay::Throughout, true);
    expect("begun 7 s after, a node cut off as it was due", &w.evidence, &[]);
    let w = late().fault(15, 29, Hit::Nodes(vec!["n2".into()]), Delay::Throughout, true);
    expect(
        "begun 7 s after, a node cut off that had nothing to do with it",
        &w.evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let w = late().first(20, |first| first.number = 2).recorded(20, |run| run.attempt = 2);
    let w = w.fault(15, 29, Hit::Nodes(vec!["n2".into()]), Delay::Throughout, true);
    expect("begun 7 s after, a node cut off that had claimed it", &w.evidence, &[]);
    let w = late().fault(20, 25, Hit::Everyone, Delay::None, false);
    expect(
        "begun 7 s after, under a fault that delays nothing",
        &w.evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let mut w = World::calm().begin(20, 1_300);
    w.evidence.host_lags.push((at(20), SECOND / 2));
    expect(
        "begun 1.3 s after, when the host took half a second to start anything",
        &w.evidence,
        &[],
    );
    let mut w = World::calm().begin(20, 1_300);
    w.evidence.host_lags.extend([(at(20), SECOND / 5), (at(20) + SECOND / 2, SECOND / 5)]);
    expect("begun 1.3 s after, when the host lost a fifth of a second twice", &w.evidence, &[]);
    let mut w = World::calm().begin(20, 1_500);
    w.evidence.host_lags.extend([(at(20), SECOND / 5), (at(20) + SECOND / 2, SECOND / 5)]);
    expect(
        "begun 1.5 s after, when it lost no more",
        &w.evidence,
        &[Verdict::Late, Verdict::Drift],
    );
    let cut = || {
        World::calm().cut(20).again(20, 9_000, 2).fault(
            21,
            22,
            Hit::Nodes(vec!["n1".into()]),
            Delay::AtBegin,
            true,
        )
    };
    expect(
        "cut short and begun again within the lease and what finding it takes",
        &cut().evidence,
        &[],
    );
    let w = World::calm().cut(20).again(20, 25_000, 2).fault(
        21,
        22,
        Hit::Nodes(vec!["n1".into()]),
        Delay::AtBegin,
        true,
    );
    // The next run of the job has begun meanwhile.
    let w = w.job(|job| job.overlap = Overlap::Allow);
    expect("cut short and begun again much later", &w.evidence, &[Verdict::Late]);
}

fn repeated(expect: Expect<'_>) {
    let w = World::calm().again(20, 3_000, 2);
    expect("done, and begun again", &w.evidence, &[Verdict::Dup]);
    let w = World::calm().again(20, 3_000, 2).fault(
        20,
        21,
        Hit::Nodes(vec!["n1".into()]),
        Delay::AtBegin,
        true,
    );
    expect("done, its node killed as it ended, and begun again", &w.evidence, &[]);
    let w = World::calm().again(20, 3_000, 2).fault(
        20,
        21,
        Hit::Nodes(vec!["n2".into()]),
        Delay::AtBegin,
        true,
    );
    expect("done, another node killed, and begun again", &w.evidence, &[Verdict::Dup]);
    let w =
        World::calm().again(20, 3_000, 2).fault(20, 21, Hit::Everyone, Delay::Brief(SECOND), false);
    expect(
        "done, under a fault that costs no lease, and begun again",
        &w.evidence,
        &[Verdict::Dup],
    );
    let w = World::calm().cut(20).again(20, 3_000, 2).job(|job| job.is_at_most_once = true);
    let w = w.fault(20, 21, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect("at-most-once, cut short with its node, and begun again", &w.evidence, &[Verdict::Dup]);
    let fail = |after_ms| World::calm().code(20, 1).again(20, after_ms, 2);
    expect("failed, with a retry left", &fail(1_600).job(|job| job.retries = 1).evidence, &[]);
    expect("failed, with none left", &fail(1_600).evidence, &[Verdict::Dup]);
    let w = fail(1_490).job(|job| job.retries = 1);
    expect("failed, and tried again before its delay", &w.evidence, &[Verdict::Early]);
    let w = fail(1_600).job(|job| (job.retries, job.retried) = (1, Retried::NeverOn(&[1])));
    expect("failed with a code that is not tried again", &w.evidence, &[Verdict::Dup]);
    let w = World::calm().code(20, 1).recorded(20, |recorded| recorded.state = "failed".into());
    expect(
        "failed, and not tried again, for its code",
        &w.job(|job| job.retries = 1).job(on_75).evidence,
        &[],
    );
    let w = World::calm().code(20, 75).recorded(20, |recorded| recorded.state = "failed".into());
    expect(
        "failed, and not tried again, in spite of its code",
        &w.job(|job| job.retries = 1).job(on_75).evidence,
        &[Verdict::Missing],
    );
    let twice = |after_ms| {
        let w = World::calm().code(20, 1).again(20, 1_600, 2).again(20, after_ms, 3);
        let mut w = w.job(|job| (job.retries, job.is_backing_off) = (2, true));
        let second = w
            .evidence
            .attempts
            .iter_mut()
            .find(|attempt| attempt.run.due == at(20) && attempt.number == 2)
            .unwrap();
        second.ended = Some((second.last_sign, 1));
        w
    };
    expect("failed twice, and tried again after twice the delay", &twice(4_200).evidence, &[]);
    expect(
        "failed twice, and tried again after the delay",
        &twice(3_200).evidence,
        &[Verdict::Early],
    );
    let w = twice(3_200).fault(20, 21, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect("the same, its first failure lost with its node", &w.evidence, &[]);
    let left = |sign_ms| {
        let w = World::calm().sign(20, sign_ms).again(20, 5_000, 2);
        w.fault(23, 24, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true)
    };
    expect(
        "done, and its node killed while it ended what the run had left",
        &left(2_500).evidence,
        &[],
    );
    expect("done, and its node killed long after that", &left(1_500).evidence, &[Verdict::Dup]);
    let killed = || {
        World::calm().again(20, 3_000, 2).fault(
            20,
            21,
            Hit::Nodes(vec!["n1".into()]),
            Delay::AtBegin,
            true,
        )
    };
    let w = killed().job(|job| job.check = Check::OnRetry);
    expect(
        "done, its node killed as it ended, and begun again in spite of a check",
        &w.evidence,
        &[Verdict::Dup],
    );
    let frozen = |sign| {
        let w = World::calm().cut(20).again(20, 8_000, 2).sign(20, sign);
        w.fault(20, 23, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true)
    };
    expect(
        "an attempt that lived 1 ms into the next",
        &frozen(8_001).evidence,
        &[Verdict::Overlap],
    );
    expect("an attempt that ended 1 ms before the next", &frozen(7_999).evidence, &[]);
    let mut w = frozen(9_000);
    w.evidence.faults[0].harm.may_overlap = true;
    expect("it lived long after its host had thawed", &w.evidence, &[Verdict::Overlap]);
    w.evidence.faults[0].to = at(28);
    expect("an attempt on a host that was frozen whole", &w.evidence, &[]);
    expect(
        "a run that lived into the next",
        &World::calm().work(10, 10_500).evidence,
        &[Verdict::Overlap],
    );
    let by_hand = |number| {
        let w = World::calm().work(10, 10_500).recorded(20, |recorded| recorded.attempt = number);
        w.first(20, |attempt| (attempt.run.is_manual, attempt.number) = (true, number))
    };
    expect("a run that lived into one by hand", &by_hand(1).evidence, &[Verdict::Overlap]);
    expect("a run that lived into one by hand that was tried again", &by_hand(2).evidence, &[]);
    let w = World::calm().work(10, 10_500).job(|job| job.overlap = Overlap::Allow);
    expect("the same of a job that may overlap", &w.evidence, &[]);
    let lower = |reach| {
        let mut w = World::calm().cut(20).again(20, 3_000, 2);
        w.evidence
            .attempts
            .iter_mut()
            .filter(|attempt| attempt.run.due == at(20))
            .for_each(|attempt| attempt.reach = reach);
        w.evidence.attempts.last_mut().unwrap().fence = 1;
        w.fault(20, 21, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true)
    };
    expect(
        "a process under a lower fence",
        &lower(Reach::Process).evidence,
        &[Verdict::Stale, Verdict::Phantom],
    );
    let accepted = lower(Reach::Request { accepted: true });
    expect(
        "an effect taken under a lower fence",
        &accepted.evidence,
        &[Verdict::Stale, Verdict::Phantom],
    );
    let w = World::calm().again(20, 3_000, 2).recorded(20, |recorded| recorded.fence = Some(3));
    let w = w.fault(20, 21, Hit::Nodes(vec!["n1".into()]), Delay::AtBegin, true);
    expect(
        "an end recorded under a fence older than one that was out",
        &w.evidence,
        &[Verdict::Stale],
    );
}

fn on_75(job: &mut Job) {
    job.retried = Retried::On(&[75]);
}

fn written(expect: Expect<'_>) {
    let poison = |node: &str| {
        let w = World::calm()
            .recorded(20, |run| (run.state, run.reason) = ("failed".into(), "poison: lost".into()));
        let w = w.recorded(20, |run| run.finished = Some(at(27))).fault(
            19,
            30,
            Hit::Everyone,
            Delay::Throughout,
            true,
        );
        let mut w = w;
        w.evidence.faults[0].harm.hit = Hit::Nodes(vec![node.into()]);
        w
    };
    expect(
        "done by a node that was cut off, and found lost once too often",
        &poison("n1").evidence,
        &[],
    );
    expect(
        "done, and found lost once too often, another node cut off",
        &poison("n2").evidence,
        &[Verdict::Silent],
    );
    let reported = |change: fn(&mut Recorded)| {
        let mut w = World::calm();
        let mut reported =
            w.evidence.history.iter().find(|recorded| recorded.run.due == at(20)).unwrap().clone();
        change(&mut reported);
        w.evidence.reported.push(reported);
        w
    };
    expect(
        "running, and later succeeded",
        &reported(|reported| reported.state = "running".into()).evidence,
        &[],
    );
    expect("succeeded, and later the same", &reported(|_| ()).evidence, &[]);
    expect(
        "failed, and later succeeded",
        &reported(|reported| reported.state = "failed".into()).evidence,
        &[Verdict::Stale],
    );
    let w = World::calm().recorded(20, |recorded| recorded.finished = Some(at(20) + SECOND / 4));
    expect("recorded as succeeded before it was done", &w.evidence, &[Verdict::Phantom]);
    let checked = |at_ms: i64| {
        let w = World::calm().job(|job| job.check = Check::OnRetry);
        w.recorded(20, |run| {
            (run.attempt, run.fence, run.finished) = (2, Some(12), Some(at(20) + at_ms * 1000))
        })
    };
    expect("found done by a check", &checked(9_000).evidence, &[]);
    expect("found done by a check before it was", &checked(300).evidence, &[Verdict::Phantom]);
    let w = World::calm().cut(20);
    expect("recorded as succeeded, and never done", &w.evidence, &[Verdict::Phantom]);
    let w = World::calm().code(20, 1);
    expect("recorded as succeeded, and failed by its own word", &w.evidence, &[Verdict::Phantom]);
    let mut w = World::calm();
    w.evidence.history.retain(|recorded| recorded.run.due != at(20));
    expect("done, and not in history", &w.evidence, &[Verdict::Silent]);
    let w = World::calm().recorded(20, |recorded| recorded.state = "failed".into());
    expect("done, and recorded as failed", &w.evidence, &[Verdict::Missing, Verdict::Silent]);
    let w = World::calm().recorded(20, |recorded| recorded.attempt = 0);
    expect("done, and recorded with fewer attempts than began", &w.evidence, &[Verdict::Silent]);
}

fn counted(expect: Expect<'_>) {
    let mut w = World::calm();
    w.done(at(25), 7);
    expect("a due that arithmetic does not know", &w.evidence, &[Verdict::Drift]);
    let w = World::calm().job(|job| job.phases[0].maybe_to = at(15));
    expect(
        "due after its job was taken away",
        &w.job(|job| job.phases[0].sure_to = at(15)).evidence,
        &[Verdict::Drift],
    );
    let skipped_range = |count| {
        let w = World::calm().forget(20).forget(30).end(10, "skipped", "missed");
        let w = w.recorded(10, |recorded| recorded.skipped_range = Some((at(30), count)));
        w.fault(9, 39, Hit::Everyone, Delay::Throughout, true)
    };
    expect("a skipped stretch that is counted right", &skipped_range(3).evidence, &[]);
    expect(
        "a skipped stretch that is counted wrong",
        &skipped_range(2).evidence,
        &[Verdict::Drift],
    );
    let mut w = World::calm();
    w.evidence.leftovers.push("a process".into());
    expect("a process left over", &w.evidence, &[Verdict::Leak]);
    let mut w = World::calm();
    w.evidence.crashes.push("n1".into());
    expect("a node that ended by itself", &w.evidence, &[Verdict::Crash]);
}

/// Returns a time, in seconds from the start of all these histories, which is a whole minute.
pub(crate) fn at(seconds: i64) -> Micros {
    (1_800_000_000 + seconds) * SECOND
}

/// A history made by hand.
pub(crate) struct World {
    pub(crate) evidence: Evidence,
}

impl World {
    /// Job `a`, due at 10, 20, 30 and 40 s, each run done by n1 within a second.
    pub(crate) fn calm() -> Self {
        let phase = Phase {
            when: When::Seconds(10),
            sure_from: at(5),
            sure_to: at(45),
            maybe_from: at(0),
            maybe_to: at(46),
        };
        let job = Job { phases: vec![phase], ..Job::new("a", Act::Work, 500) };
        let timing = Timing { lease: 6 * SECOND, reap: SECOND, kill_grace: SECOND, clean: SECOND };
        let evidence = Evidence {
            timing,
            jobs: BTreeMap::from([("a".into(), job)]),
            attempts: Vec::new(),
            history: Vec::new(),
            reported: Vec::new(),
            faults: Vec::new(),
            operations: Vec::new(),
            generations: BTreeMap::new(),
            host_lags: Vec::new(),
            nodes: ["n1", "n2", "n3"].map(Into::into).into(),
            labelled: vec!["n1".into(), "n2".into()],
            shards: 0,
            small: Some("n4".into()),
            late_reports: 0,
            stopped_handlers: 0,
            leftovers: Vec::new(),
            crashes: Vec::new(),
        };
        let mut world = Self { evidence };
        for (fence, due) in [10, 20, 30, 40].into_iter().enumerate() {
            world.done(at(due), 2 + fence as u64);
        }
        world
    }

    pub(crate) fn done(&mut self, due: Micros, fence: u64) {
        let run =
            RunName { id: format!("a@{}", due / 1000), job: "a".into(), due, is_manual: false };
        let (began, ended) = (due + 10_000, due + 510_000);
        self.evidence.attempts.push(Attempt {
            run: run.clone(),
            number: 1,
            fence,
            node: "n1".into(),
            pid: 1,
            began,
            last_sign: ended,
            ended: Some((ended, 0)),
            reach: Reach::Process,
            version: None,
        });
        self.evidence.history.push(Recorded {
            run,
            state: "succeeded".into(),
            attempt: 1,
            fence: Some(fence),
            node: None,
            started: None,
            finished: Some(ended + 5_000),
            waited_from: None,
            let_in: None,
            reason: String::new(),
            skipped_range: None,
            shard: None,
        });
    }

    pub(crate) fn job(mut self, change: impl FnOnce(&mut Job)) -> Self {
        change(self.evidence.jobs.get_mut("a").unwrap());
        self
    }

    pub(crate) fn first(mut self, due: i64, change: impl FnOnce(&mut Attempt)) -> Self {
        change(
            self.evidence.attempts.iter_mut().find(|attempt| attempt.run.due == at(due)).unwrap(),
        );
        self
    }

    pub(crate) fn recorded(mut self, due: i64, change: impl FnOnce(&mut Recorded)) -> Self {
        change(
            self.evidence.history.iter_mut().find(|recorded| recorded.run.due == at(due)).unwrap(),
        );
        self
    }

    /// Removes everything about a due time.
    pub(crate) fn forget(mut self, due: i64) -> Self {
        self.evidence.attempts.retain(|attempt| attempt.run.due != at(due));
        self.evidence.history.retain(|recorded| recorded.run.due != at(due));
        self
    }

    /// Makes a run end in this state half a second after it was due, without an attempt.
    pub(crate) fn end(mut self, due: i64, state: &str, reason: &str) -> Self {
        self.evidence.attempts.retain(|attempt| attempt.run.due != at(due));
        self.recorded(due, |recorded| {
            (recorded.state, recorded.reason) = (state.into(), reason.into());
            recorded.finished = Some(at(due) + SECOND / 2);
        })
    }

    pub(crate) fn begin(self, due: i64, late_ms: i64) -> Self {
        self.first(due, |attempt| attempt.began = at(due) + late_ms * 1000)
            .work(due, late_ms.max(0) + 500)
    }

    /// Makes a run end this long after it was due.
    pub(crate) fn work(self, due: i64, ms: i64) -> Self {
        let end = at(due) + ms * 1000;
        self.first(due, |attempt| (attempt.ended, attempt.last_sign) = (Some((end, 0)), end))
            .recorded(due, |recorded| recorded.finished = Some(end + 5_000))
    }

    pub(crate) fn code(self, due: i64, code: i32) -> Self {
        self.first(due, |attempt| attempt.ended = Some((attempt.last_sign, code)))
    }

    pub(crate) fn cut(self, due: i64) -> Self {
        self.first(due, |attempt| attempt.ended = None)
    }

    pub(crate) fn sign(self, due: i64, ms: i64) -> Self {
        self.first(due, |attempt| attempt.last_sign = at(due) + ms * 1000)
    }

    /// Adds another attempt this long after the due time, on n2, successful and recorded as the
    /// run's end.
    pub(crate) fn again(mut self, due: i64, after_ms: i64, number: u32) -> Self {
        let (began, fence) = (at(due) + after_ms * 1000, 10 + u64::from(number));
        let ended = began + SECOND / 2;
        let first =
            self.evidence.attempts.iter().find(|attempt| attempt.run.due == at(due)).unwrap();
        let next = Attempt {
            number,
            fence,
            node: "n2".into(),
            began,
            last_sign: ended,
            ended: Some((ended, 0)),
            ..first.clone()
        };
        self.evidence.attempts.push(next);
        self.recorded(due, |recorded| {
            (recorded.attempt, recorded.fence, recorded.finished) =
                (number, Some(fence), Some(ended + 5_000));
        })
    }

    pub(crate) fn fault(
        mut self,
        from: i64,
        to: i64,
        hit: Hit,
        delay: Delay,
        may_repeat: bool,
    ) -> Self {
        let harm = Harm { hit, delay, may_repeat, may_overlap: false };
        self.evidence.faults.push(Inflicted {
            row: "F".into(),
            what: "by hand".into(),
            from: at(from),
            to: at(to),
            harm,
            excuse: None,
        });
        self
    }
}
