//! What was planned.

use super::scene::{about, ana, deed, done_by_ana, facts, flush, fresh, not_due, s, started, the_job, with_job, with_spec};
use super::{Example, hold};
use crate::domain::days::Days;
use crate::domain::deed::Deed;
use crate::domain::explain::{Facts, Loss, PastSchedule, RunFacts, Source, Subject, judge};
use crate::domain::ids::RunId;
use crate::domain::schedule::Schedule;

const PLANNED: &[Example] = &[
    ("schedule", || about(started(0)), "Its schedule is * * * * * in UTC, since Sat 2026-11-21 11:00:00 UTC."),
    (
        "schedule",
        || {
            let resumed = with_job(about(started(0)), |job| job.since = s(300));
            Facts { deeds: vec![deed(Deed::ADDED, -60), deed(Deed::RESUMED, 300)], ..resumed }
        },
        "Its schedule is * * * * * in UTC, since Sat 2026-11-21 11:59:00 UTC.",
    ),
    (
        "schedule_unknown",
        || with_job(about(started(0)), |job| job.since = s(300)),
        "Which schedule it had at that time is not known; that of now, * * * * * in UTC, holds since Sat 2026-11-21 12:05:00 UTC.",
    ),
    ("schedule_then", before_days_were_left_out, "Its schedule at that time was * * * * * in UTC."),
    (
        "schedule",
        || Facts { deeds: Vec::new(), ..resumed_after_many_deeds() },
        "Its schedule is * * * * * in UTC, since Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "edited",
        before_days_were_left_out,
        "What of its schedule * * * * * in UTC counts was changed by ana@h1 on Sat 2026-11-21 12:01:00 UTC: exclude, only_on, start, end, anchor or dst.",
    ),
    ("schedule_then", not_due, "Its schedule at that time was @daily in UTC."),
    (
        "left_out",
        || {
            let asked = facts(Subject::NotDue { at: s(0), before: None, after: None });
            with_spec(asked, |spec| spec.shape.exclude = Days::of(["2026-11-20..2026-11-22".parse().unwrap()]))
        },
        "Its schedule names that time, and exclude = 2026-11-20..2026-11-22 leaves it out.",
    ),
    (
        "manual",
        || with_spec(the_job(vec![], None), |spec| spec.schedule = Schedule::Manual),
        "It has no schedule: it runs only when asked.",
    ),
    (
        "notice",
        || Facts { name: "j/on_failure".parse().unwrap(), ..the_job(vec![], None) },
        "It is a notice, on_failure of job j: it has no schedule, and each of its runs tells of a run of that job.",
    ),
    (
        "unreadable",
        || with_job(the_job(vec![], None), |job| job.definition = Err("it is damaged".to_owned())),
        "Its definition cannot be read, so nothing of it runs: it is damaged.",
    ),
    ("of_file", || about(started(0)), "It is set in [jobs.j] of the file of node n1."),
    (
        "of_file",
        || with_job(about(started(0)), |job| job.source = Source::File(vec!["n1".to_owned(), "n2".to_owned()])),
        "It is set in [jobs.j] of the files of nodes n1 and n2.",
    ),
    (
        "added",
        || with_job(about(started(0)), |job| job.source = Source::Api),
        "It was added by ana@h1 on Sat 2026-11-21 11:00:00 UTC.",
    ),
    (
        "added",
        || with_job(about(started(0)), |job| (job.source, job.created) = (Source::Api, None)),
        "It was added by schedctl; by whom is not known.",
    ),
    (
        "finished",
        || with_job(about(started(0)), |job| job.ended = Some(("finished".to_owned(), Some(s(5))))),
        "It was a one-shot and is over on Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "removed",
        || {
            let removed = with_job(about(started(0)), |job| job.ended = Some(("cancelled".to_owned(), Some(s(9)))));
            done_by_ana(Deed::REMOVED, 9, removed)
        },
        "The job is no longer defined: it was removed by ana@h1 on Sat 2026-11-21 12:00:09 UTC.",
    ),
    (
        "forgotten",
        || Facts { job: None, ..about(started(0)) },
        "The job is no longer defined, and its definition is no longer kept.",
    ),
    (
        "gone_at_loss",
        || Facts { job: None, gone: Some((s(60), "every 1h".to_owned())), ..about(started(0)) },
        "It was added by schedctl (every 1h) and is gone since Redis lost data, noticed on Sat 2026-11-21 12:01:00 UTC; no file brings it back.",
    ),
    (
        "paused",
        || done_by_ana(Deed::PAUSED, 60, with_job(the_job(vec![], None), |job| job.paused_at = Some(s(60)))),
        "It is paused by ana@h1 since Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "asked_for",
        || {
            let run = RunId::manual("j".parse().unwrap(), s(0), "x").unwrap();
            about(RunFacts { run, asked_by: Some(ana()), ..started(0) })
        },
        "It was asked for by hand by ana@h1 on Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "made_up",
        || about(RunFacts { run: RunId::backfill("j".parse().unwrap(), s(0)), ..started(0) }),
        "It makes up for the occurrence of Sat 2026-11-21 12:00:00 UTC: schedctl backfill asked for it.",
    ),
    (
        "done_anew",
        || {
            let run = RunId::rerun("j".parse().unwrap(), s(0), "abc123").unwrap();
            about(RunFacts { run, asked_by: Some(ana()), ..started(0) })
        },
        "It does the work of Sat 2026-11-21 12:00:00 UTC anew: schedctl rerun asked for it by ana@h1.",
    ),
    (
        "booted",
        || about(RunFacts { run: RunId::boot("j".parse().unwrap(), s(0), "abc12345").unwrap(), ..started(0) }),
        "It came with a boot of its host: the first schedd there started on Sat 2026-11-21 12:00:00 UTC.",
    ),
    (
        "spoilt_deeds",
        || Facts { deeds_error: Some("key k holds a string".to_owned()), ..about(started(0)) },
        "What was done to it, and by whom, cannot be told: key k holds a string.",
    ),
    ("not_due", not_due, "It was not due at Sat 2026-11-21 12:00:30 UTC."),
    ("nearest", not_due, "The time before is Sat 2026-11-21 12:00:00 UTC, the time after is Sat 2026-11-21 12:01:00 UTC."),
    ("not_there_yet", before_it_was_added, "It was not there yet: it was added on Sat 2026-11-21 11:00:00 UTC by ana@h1."),
    (
        "nearest",
        || facts(Subject::NotDue { at: s(30), before: None, after: Some(s(60)) }),
        "There is no time before, the time after is Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "edited",
        not_due,
        "Its schedule was changed by ana@h1 on Sat 2026-11-21 12:01:00 UTC from @daily in UTC to * * * * * in UTC.",
    ),
];

/// A job added by schedctl and edited since, asked for a time before that.
fn before_it_was_added() -> Facts {
    let subject = Subject::NotDue { at: s(-7200), before: None, after: Some(s(-3600)) };
    with_job(Facts { subject, ..not_due() }, |job| job.source = Source::Api)
}

/// The schedule of every minute, from and to these seconds.
fn kept(from: i64, until: i64) -> PastSchedule {
    let definition = facts(Subject::Never).job.unwrap().definition.ok();
    PastSchedule { from: s(from), until: s(until), definition }
}

/// An occurrence that ran before its day was left out.
fn before_days_were_left_out() -> Facts {
    let text = "* * * * * in UTC".to_owned();
    let edit = Deed { schedules: Some((text.clone(), text)), ..deed(Deed::EDITED, 60) };
    let left_out = with_spec(about(started(0)), |spec| {
        spec.shape.exclude = Days::of(["2026-11-20..2026-11-22".parse().unwrap()]);
    });
    with_job(Facts { deeds: vec![edit], past: vec![kept(-3600, 60)], ..left_out }, |job| job.since = s(60))
}

/// A job edited and resumed so long ago that no deed tells of it.
fn resumed_after_many_deeds() -> Facts {
    let subject = Subject::NotDue { at: s(330), before: Some(s(300)), after: Some(s(360)) };
    let other = PastSchedule { definition: None, ..kept(-3600, 60) };
    with_job(Facts { past: vec![other, kept(60, 300)], ..facts(subject) }, |job| job.since = s(300))
}

#[test]
fn what_left_a_time_out_is_told_by_the_schedule_of_then() {
    let asked = |facts: Facts| Facts { subject: Subject::NotDue { at: s(0), before: None, after: None }, ..facts };
    assert!(!codes(&asked(before_days_were_left_out())).contains(&"left_out"));
    let today = with_job(asked(before_days_were_left_out()), |job| job.since = s(-3600));
    assert!(codes(&Facts { deeds: Vec::new(), ..today }).contains(&"left_out"));
}

fn codes(facts: &Facts) -> Vec<&'static str> {
    judge(facts).iter().map(|found| found.code).collect()
}

#[test]
fn of_a_time_before_a_job_was_added_no_schedule_is_told_and_no_loss() {
    let told = codes(&before_it_was_added());
    assert!(!told.contains(&"schedule_then") && !told.contains(&"schedule_unknown") && told.contains(&"schedule"), "{told:?}");
    let subject = Subject::Unrecorded { at: s(-7200) };
    let added_after_a_loss = Facts { subject, losses: vec![Loss { noticed: s(-4000), ..flush() }], ..before_it_was_added() };
    let told = codes(&added_after_a_loss);
    assert!(told.contains(&"not_there_yet") && !told.contains(&"gone_with_data") && !told.contains(&"data_lost"), "{told:?}");
    // Where one of its name was lost, or was there before, or a file may have added it again, it is not told.
    let gone = Facts { gone: Some((s(-4000), "every 1h".to_owned())), ..added_after_a_loss.clone() };
    let of_file = with_job(added_after_a_loss, |job| job.source = Source::File(vec!["n1".to_owned()]));
    for facts in [gone, of_file] {
        let told = codes(&facts);
        assert!(told.contains(&"gone_with_data") && !told.contains(&"not_there_yet"), "{told:?}");
    }
    let older = Facts { deeds: vec![deed(Deed::REMOVED, -8000)], ..before_it_was_added() };
    assert!(!codes(&older).contains(&"not_there_yet"));
}

#[test]
fn every_sentence_about_what_was_planned_is_made_true() {
    hold(PLANNED);
}

#[test]
fn a_notice_is_told_as_nothing_a_person_asked_for_nor_as_a_one_shot() {
    let run = RunFacts { run: RunId::manual("j/on_failure".parse().unwrap(), s(0), "x").unwrap(), ..fresh() };
    let told = Facts { name: "j/on_failure".parse().unwrap(), ..about(run) };
    let told = with_job(told, |job| job.ended = Some(("finished".to_owned(), Some(s(10)))));
    let codes: Vec<&str> = judge(&told).iter().map(|found| found.code).collect();
    assert!(codes.contains(&"notice"), "{codes:?}");
    assert!(codes.iter().all(|code| !["asked_for", "finished", "manual", "added"].contains(code)), "{codes:?}");
}
