//! The histories for WRONG: job `a` is removed and added again under its name.

use super::self_test::{Expect, World, at};
use crate::checker::Verdict;
use crate::evidence::{Delay, Doing, Excuse, Generation, Hit, Micros, Operation, RunName, SECOND};
use crate::world::schedule::When;

const MS: Micros = 1_000;

pub(crate) fn judge(expect: Expect<'_>) {
    expect("removed and added again, each due done as its job says", &readded().evidence, &[]);
    begun(expect);
    gone_on(expect);
    asked_for(expect);
    ended(expect);
    placed(expect);
}

fn placed(expect: Expect<'_>) {
    let mut w = World::calm();
    w.evidence.shards = 2;
    expect("a recurring job in the namespace itself", &w.evidence, &[]);
    let w = w.recorded(20, |run| run.shard = Some(0));
    expect("a run of it on a shard", &w.evidence, &[Verdict::Wrong]);
    let once = |shard| {
        let mut w = World::calm().forget(20).forget(30).forget(40);
        w.evidence.shards = 2;
        w.job(|job| job.phases[0].when = When::Once(at(10)))
            .recorded(10, move |run| run.shard = shard)
    };
    expect("due once in a spread queue, on a shard", &once(Some(1)).evidence, &[]);
    expect("the same in the namespace itself", &once(None).evidence, &[Verdict::Wrong]);
    let mut w = once(Some(1));
    w.evidence.shards = 0;
    expect("on a shard where there is none", &w.evidence, &[Verdict::Wrong]);
    for shard in [0, 1] {
        let mut w = once(Some(1)).job(|job| job.sharing.unique = Some("invoice-7"));
        let mut again = w.evidence.history[0].clone();
        again.shard = Some(shard);
        w.evidence.history.push(again);
        let wanted: &[Verdict] = if shard == 1 { &[] } else { &[Verdict::Wrong] };
        expect("recorded once more, on shard 0 or 1", &w.evidence, wanted);
    }
}

fn begun(expect: Expect<'_>) {
    let w = readded().first(30, |first| first.version = Some(1));
    expect(
        "due after its job was added again, begun with the old definition",
        &w.evidence,
        &[Verdict::Wrong],
    );
    let w = readded().first(20, |first| first.version = Some(2));
    expect(
        "due before its job was removed, begun with the later definition",
        &w.evidence,
        &[Verdict::Wrong],
    );
    let at_the_gate = |version| owed().first(20, move |first| first.version = Some(version));
    expect(
        "waiting at the removal, begun as the job added again",
        &at_the_gate(2).evidence,
        &[Verdict::Wrong],
    );
    expect(
        "waiting at the removal, begun after it with its own definition",
        &at_the_gate(1).evidence,
        &[Verdict::Wrong],
    );
    let w = same(at_the_gate(1));
    expect(
        "waiting at the removal, begun as the same definition added again",
        &w.evidence,
        &[Verdict::Wrong],
    );
    let w = same(at_the_gate(1)).fault(20, 21, Hit::Everyone, Delay::AtBegin, true);
    expect("the same, but it may have been claimed and handed back before", &w.evidence, &[]);
    let w = edited(at_the_gate(2));
    expect(
        "waiting at what may have been an edit, begun with the new definition",
        &w.evidence,
        &[],
    );
    let w = edited(at_the_gate(3));
    expect("the same, begun with a definition its job never had", &w.evidence, &[Verdict::Wrong]);
    let mut w = at_the_gate(2);
    for (from, to) in [(0, 1), (25, 26)] {
        let names = ["a".to_owned()].into();
        w = w.fault(from, to, Hit::Everyone, Delay::None, false);
        w.evidence.faults.last_mut().unwrap().excuse = Some(Excuse::Forgot(names));
        expect(
            "waiting at a removal that Redis lost or had lost",
            &w.evidence,
            if from == 0 { &[Verdict::Wrong] } else { &[] },
        );
    }
    let window = |version| {
        let mut w = readded().first(30, move |first| first.version = Some(version));
        let all = w.evidence.generations.get_mut("a").unwrap();
        (all[0].removed, all[1].added) = ((at(29), at(31)), (at(29), at(31)));
        w.job(|job| (job.phases[0].sure_to, job.phases[0].maybe_to) = (at(29), at(46)))
    };
    expect(
        "due while the change was being acknowledged, begun with the earlier definition",
        &window(1).evidence,
        &[],
    );
    expect("the same, begun with the later one", &window(2).evidence, &[]);
    // The run of a one-shot whose successor of the same name is due far ahead.
    let mut w = owed().first(20, |first| first.version = Some(2));
    let when = [20, 4_000].map(|due| When::Once(at(due)));
    for (generation, when) in w.evidence.generations.get_mut("a").unwrap().iter_mut().zip(when) {
        generation.when = when;
    }
    expect(
        "due once, begun with the definition of one that is due far ahead",
        &w.evidence,
        &[Verdict::Wrong],
    );
}

fn gone_on(expect: Expect<'_>) {
    let failed = |version| {
        let w = readded()
            .job(|job| (job.retries, job.retry_delay) = (1, 6 * SECOND))
            .code(20, 1)
            .again(20, 8_500, 2);
        let mut w = w.forget(30);
        w.evidence.jobs.get_mut("a").unwrap().phases[0].sure_to = at(24);
        w.evidence.attempts.last_mut().unwrap().version = Some(version);
        w
    };
    expect(
        "begun before the removal, tried again as the job added again",
        &failed(2).evidence,
        &[Verdict::Wrong],
    );
    expect(
        "begun before the removal, tried again after another definition had its name",
        &failed(1).evidence,
        &[Verdict::Wrong],
    );
    expect(
        "begun before the removal, tried again with the same definition",
        &same(failed(1)).evidence,
        &[],
    );
    let mut w = failed(1).forget(40);
    w.evidence.generations.get_mut("a").unwrap().truncate(1);
    expect("begun before the removal, tried again after it", &w.evidence, &[]);
}

fn asked_for(expect: Expect<'_>) {
    let by_hand = |asked: i64, version| {
        let mut w = readded().forget(20).forget(30).forget(40);
        w.evidence.jobs.get_mut("a").unwrap().phases[0].sure_to = at(15);
        w.done(at(40), 9);
        let run = RunName {
            id: format!("a@{}~x", at(asked) / 1000),
            job: "a".into(),
            due: at(asked),
            is_manual: true,
        };
        w.evidence.attempts.last_mut().unwrap().run = run.clone();
        w.evidence.attempts.last_mut().unwrap().version = Some(version);
        w.evidence.history.last_mut().unwrap().run = run.clone();
        w.evidence.operations.push(Operation {
            from: at(asked),
            to: at(asked) + 100 * MS,
            what: Doing::Ran(run.id),
        });
        w
    };
    expect(
        "asked for by hand after the addition, begun as that job",
        &by_hand(35, 2).evidence,
        &[],
    );
    expect(
        "asked for by hand before the removal, begun after the addition",
        &by_hand(20, 2).evidence,
        &[Verdict::Wrong],
    );
    expect("the same, with the same definition", &same(by_hand(20, 1)).evidence, &[Verdict::Wrong]);
    let backfilled = |asked: i64| {
        let mut w = by_hand(35, 2);
        let id = format!("a@{}~backfill", at(10) / 1000);
        let run = RunName { id, job: "a".into(), due: at(10), is_manual: true };
        w.evidence.attempts.last_mut().unwrap().run = run.clone();
        w.evidence.history.last_mut().unwrap().run = run;
        w.evidence.operations = vec![Operation {
            from: at(asked),
            to: at(asked) + 100 * MS,
            what: Doing::Backfilled("a".into()),
        }];
        w
    };
    expect("a past occurrence asked for after the addition", &backfilled(35).evidence, &[]);
    expect(
        "a past occurrence asked for before the removal",
        &backfilled(20).evidence,
        &[Verdict::Wrong],
    );
}

fn ended(expect: Expect<'_>) {
    let reason = "of an earlier job of this name";
    let w = readded().end(20, "cancelled", reason).recorded(20, |run| run.finished = Some(at(27)));
    expect("cancelled after its job was removed", &w.evidence, &[]);
    let waited = |until: Micros| {
        let w = readded().job(|job| (job.retries, job.retry_delay) = (1, 15 * SECOND)).code(20, 1);
        w.end(30, "skipped", "overlap").recorded(20, move |run| {
            (run.state, run.reason, run.finished) =
                ("cancelled".into(), reason.into(), Some(until));
        })
    };
    expect(
        "skipped for one that waited for its retry until it was cancelled",
        &waited(at(31)).evidence,
        &[],
    );
    expect("skipped after such a one was cancelled", &waited(at(28)).evidence, &[Verdict::Missing]);
    let w = readded().end(20, "cancelled", reason);
    expect("cancelled before its job was removed", &w.evidence, &[Verdict::Missing]);
    let w = readded().end(40, "cancelled", reason);
    expect(
        "cancelled for an earlier job, though its job was never removed",
        &w.evidence,
        &[Verdict::Missing],
    );
    expect(
        "cancelled for an earlier job of which there is none",
        &World::calm().end(20, "cancelled", reason).evidence,
        &[Verdict::Missing],
    );
}

/// The job is removed at 25 s and added again at 26 s with another definition.
fn readded() -> World {
    let mut w = World::calm();
    let one = |version, added: Micros, removed: Micros| Generation {
        version,
        when: When::Seconds(10),
        added: (added, added.saturating_add(100 * MS)),
        removed: (removed, removed.saturating_add(100 * MS)),
        may_be_edited: false,
    };
    w.evidence
        .generations
        .insert("a".into(), vec![one(1, at(0), at(25)), one(2, at(26), Micros::MAX)]);
    for attempt in &mut w.evidence.attempts {
        attempt.version = Some(if attempt.run.due < at(25) { 1 } else { 2 });
    }
    w
}

/// The run due at 20 s began at 27 s, because it waited for a job of its group.
fn owed() -> World {
    let mut w = readded().begin(20, 7_000).job(|job| job.sharing.group = Some("alone"));
    let mut other = w.evidence.attempts[0].clone();
    other.run = RunName {
        id: format!("b@{}", at(19) / 1000),
        job: "b".into(),
        due: at(19),
        is_manual: false,
    };
    (other.began, other.last_sign, other.ended) =
        (at(19) + 10 * MS, at(26) + 900 * MS, Some((at(26) + 900 * MS, 0)));
    other.version = None;
    let mut done = w.evidence.history[0].clone();
    (done.run, done.finished) = (other.run.clone(), Some(at(26) + 905 * MS));
    let mut job = w.evidence.jobs["a"].clone();
    job.name = "b".into();
    job.phases[0].when = When::Once(at(19));
    w.evidence.jobs.insert("b".into(), job);
    w.evidence.attempts.push(other);
    w.evidence.history.push(done);
    w
}

fn same(mut w: World) -> World {
    let all = w.evidence.generations.get_mut("a").unwrap();
    all[1].version = 1;
    for attempt in w.evidence.attempts.iter_mut().filter(|attempt| attempt.version == Some(2)) {
        attempt.version = Some(1);
    }
    w
}

fn edited(mut w: World) -> World {
    w.evidence.generations.get_mut("a").unwrap()[0].may_be_edited = true;
    w
}
