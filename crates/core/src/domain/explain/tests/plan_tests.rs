//! Tests of the findings about the plan.

use super::explain_scene::{
    about, ana, done_by_ana, entry, facts, flush, fresh, not_due, s, started, the_job,
};
use crate::domain::explain::{Facts, Loss, PastSchedule, RunFacts, Source, Subject};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::day_sets::DaySet;
use schedd_schedule::names::RunId;
use schedd_schedule::schedule_form::Schedule;

fn plain() -> Facts {
    about(started(0))
}

fn job() -> Facts {
    the_job(vec![], None)
}

fn exclude_the_day(spec: &mut JobSpec) {
    spec.shape.exclude = DaySet::of(["2026-11-20..2026-11-22".parse().unwrap()]);
}

/// Returns facts of a job that `schedctl add` added and that was edited later. The question is
/// about a time before both.
fn before_it_was_added() -> Facts {
    let subject = Subject::NotDue { at: s(-7200), before: None, after: Some(s(-3600)) };
    Facts { subject, ..not_due() }.with_job(|job| job.source = Source::Api)
}

/// Returns an earlier schedule with an occurrence each minute. The job had this schedule from
/// `from` to `until`, in seconds after noon.
fn kept(from: i64, until: i64) -> PastSchedule {
    let definition = facts(Subject::Never).job.unwrap().definition.ok();
    PastSchedule { from: s(from), until: s(until), definition }
}

/// Returns facts of an occurrence that had a run before `exclude` was set for its day.
fn before_days_were_left_out() -> Facts {
    let text = "* * * * * in UTC".to_owned();
    let edit =
        AuditEntry { schedules: Some((text.clone(), text)), ..entry(AuditEntry::EDITED, 60) };
    let excluded = plain().with_spec(exclude_the_day).with_job(|job| job.since = s(60));
    Facts { audit_log: vec![edit], past: vec![kept(-3600, 60)], ..excluded }
}

/// Returns facts of a job whose last edit and resume the audit log no longer has.
fn resumed_after_many_changes() -> Facts {
    let subject = Subject::NotDue { at: s(330), before: Some(s(300)), after: Some(s(360)) };
    let other = PastSchedule { definition: None, ..kept(-3600, 60) };
    Facts { past: vec![other, kept(60, 300)], ..facts(subject) }.with_job(|job| job.since = s(300))
}

#[test]
fn the_schedule_of_the_time_asked_about_is_named() {
    plain().says("schedule", "The schedule has been * * * * * in UTC since 11:00:00.");
    let later = || plain().with_job(|job| job.since = s(300));
    Facts {
        audit_log: vec![entry(AuditEntry::ADDED, -60), entry(AuditEntry::RESUMED, 300)],
        ..later()
    }
    .says("schedule", "The schedule has been * * * * * in UTC since 11:59:00.");
    let text = "The schedule at that time is not known. The job has had its present schedule, * * * * * in UTC, since 12:05:00.";
    later().says("schedule_unknown", text);
    resumed_after_many_changes()
        .says("schedule", "The schedule has been * * * * * in UTC since 12:01:00.");
    let text = "The schedule * * * * * in UTC was changed by ana@h1 on 12:01:00: exclude, only_on, start, end, anchor or dst got another value.";
    before_days_were_left_out()
        .says("schedule_then", "The schedule at that time was * * * * * in UTC.")
        .says("edited", text);
    not_due()
        .says("schedule_then", "The schedule at that time was @daily in UTC.")
        .says("edited", "The schedule was changed by ana@h1 on 12:01:00 from @daily in UTC to * * * * * in UTC.")
        .says("not_due", "The job was not due at 12:00:30.")
        .says("nearest", "The previous time of the schedule is 12:00:00, and the next time is 12:01:00.");
    facts(Subject::NotDue { at: s(30), before: None, after: Some(s(60)) })
        .says("nearest", "The schedule has no earlier time, and the next time is 12:01:00.");
    facts(Subject::NotDue { at: s(0), before: None, after: None }).with_spec(exclude_the_day).says(
        "left_out",
        "The schedule has this time, but exclude = 2026-11-20..2026-11-22 excludes the time.",
    );
    job()
        .with_spec(|spec| spec.schedule = Schedule::Manual)
        .says("manual", "The job has no schedule. It runs only on request.");
    let text = "The job delivers the on_failure notices of job j. It has no schedule: each of its runs reports a run of job j.";
    Facts { name: "j/on_failure".parse().unwrap(), ..job() }.says("notice", text);
    job().with_job(|job| job.definition = Err("it is damaged".to_owned())).says(
        "unreadable",
        "The stored definition cannot be read, so the job does not run: it is damaged.",
    );
}

#[test]
fn the_source_and_the_end_of_a_job_are_named() {
    plain().says("of_file", "The job is defined in [jobs.j] of the file of node n1.");
    plain()
        .with_job(|job| job.source = Source::File(vec!["n1".to_owned(), "n2".to_owned()]))
        .says("of_file", "The job is defined in [jobs.j] of the files of nodes n1 and n2.");
    let added = || plain().with_job(|job| job.source = Source::Api);
    added().says("added", "The job was added by ana@h1 on 11:00:00.");
    added()
        .with_job(|job| job.created = None)
        .says("added", "The job was added by schedctl. The user who added the job is not known.");
    before_it_was_added().says(
        "not_there_yet",
        "The job did not exist yet. The job was added on 11:00:00 by ana@h1.",
    );
    let ended = |how: &str| plain().with_job(|job| job.ended = Some((how.to_owned(), Some(s(9)))));
    ended("finished").says("finished", "The job was a one-shot, which finished on 12:00:09.");
    done_by_ana(AuditEntry::REMOVED, 9, ended("cancelled")).says(
        "removed",
        "The job is no longer defined. The job was removed by ana@h1 on 12:00:09.",
    );
    assert!(!ended("cancelled").codes().contains(&"of_file"));
    Facts { job: None, ..plain() }
        .says("forgotten", "The job is no longer defined, and its definition is no longer kept.");
    let text = "The job was added by schedctl (every 1h). Redis lost the job in the data loss noticed on 12:01:00. No jobs file restores the job.";
    Facts { job: None, gone: Some((s(60), "every 1h".to_owned())), ..plain() }
        .says("gone_at_loss", text);
    done_by_ana(AuditEntry::PAUSED, 60, job().with_job(|job| job.paused_at = Some(s(60))))
        .says("paused", "The job has been paused by ana@h1 since 12:01:00.");
    Facts { audit_log_error: Some("key k holds a string".to_owned()), ..plain() }.says(
        "audit_log_unreadable",
        "The audit log of the job cannot be read: key k holds a string.",
    );
}

#[test]
fn a_run_that_is_not_regular_says_what_asked_for_it() {
    let j = || "j".parse().unwrap();
    let asked = |run| about(RunFacts { run, asked_by: Some(ana()), ..started(0) });
    asked(RunId::manual(j(), s(0), "x").unwrap())
        .says("asked_for", "The run was requested by hand by ana@h1 on 12:00:00.");
    asked(RunId::backfill(j(), s(0))).says(
        "made_up",
        "The run is a backfill of the occurrence of 12:00:00, requested with schedctl backfill.",
    );
    asked(RunId::rerun(j(), s(0), "abc123").unwrap()).says(
        "done_anew",
        "The run repeats the run of 12:00:00, as requested with schedctl rerun by ana@h1.",
    );
    asked(RunId::boot(j(), s(0), "abc12345").unwrap())
        .says("booted", "The run belongs to a boot of its host. The first schedd after that boot started on 12:00:00.");
}

#[test]
fn a_key_leaves_a_time_out_only_of_the_schedule_of_then() {
    let asked = |facts: Facts| Facts {
        subject: Subject::NotDue { at: s(0), before: None, after: None },
        ..facts
    };
    assert!(!asked(before_days_were_left_out()).codes().contains(&"left_out"));
    let today = asked(before_days_were_left_out()).with_job(|job| job.since = s(-3600));
    assert!(Facts { audit_log: Vec::new(), ..today }.codes().contains(&"left_out"));
}

#[test]
fn a_time_before_a_job_was_added_has_no_schedule_and_no_loss() {
    let found = before_it_was_added().codes();
    assert!(!found.contains(&"schedule_then") && !found.contains(&"schedule_unknown"), "{found:?}");
    assert!(found.contains(&"schedule"), "{found:?}");
    let subject = Subject::Unrecorded { at: s(-7200) };
    let after_loss = Facts {
        subject,
        losses: vec![Loss { noticed: s(-4000), ..flush() }],
        ..before_it_was_added()
    };
    let found = after_loss.codes();
    assert!(found.contains(&"not_there_yet"), "{found:?}");
    assert!(!found.contains(&"gone_with_data") && !found.contains(&"data_lost"), "{found:?}");
    // The job may be older than its record: a data loss removed it, or a file added it again.
    let gone = Facts { gone: Some((s(-4000), "every 1h".to_owned())), ..after_loss.clone() };
    let of_file = after_loss.with_job(|job| job.source = Source::File(vec!["n1".to_owned()]));
    for facts in [gone, of_file] {
        let found = facts.codes();
        assert!(
            found.contains(&"gone_with_data") && !found.contains(&"not_there_yet"),
            "{found:?}"
        );
    }
    let older =
        Facts { audit_log: vec![entry(AuditEntry::REMOVED, -8000)], ..before_it_was_added() };
    assert!(!older.codes().contains(&"not_there_yet"));
}

#[test]
fn a_notice_is_neither_asked_for_by_hand_nor_a_one_shot() {
    let run = RunFacts {
        run: RunId::manual("j/on_failure".parse().unwrap(), s(0), "x").unwrap(),
        ..fresh()
    };
    let notice = Facts { name: "j/on_failure".parse().unwrap(), ..about(run) };
    let codes =
        notice.with_job(|job| job.ended = Some(("finished".to_owned(), Some(s(10))))).codes();
    assert!(codes.contains(&"notice"), "{codes:?}");
    assert!(
        codes.iter().all(|code| !["asked_for", "finished", "manual", "added"].contains(code)),
        "{codes:?}"
    );
}
