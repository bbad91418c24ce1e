//! Tests of the findings about the next run.

use std::time::Duration;

use super::explain_scene::{about, fresh, s, started, the_job};
use crate::domain::explain::Facts;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::schedule_form::Schedule;

#[test]
fn what_comes_next() {
    let plain = || about(started(0));
    let job = || the_job(vec![], None);
    plain().says("next", "The next occurrence is due on 12:16:00.");
    plain()
        .with_job(|job| job.pending = Some(s(60)))
        .says("next_owed", "The next run has been due since 12:01:00 and has not started.");
    let paused = plain().with_job(|job| job.paused_at = Some(s(60)));
    paused.says(
        "next_paused",
        "The schedule starts no runs while the job is paused. schedctl resume j resumes the job.",
    );
    let text =
        "One past occurrence still waits for its backfill. A pause does not stop the backfill.";
    Facts { making_up: 1, ..plain() }.says("next_made_up", text);
    let text = "3 past occurrences still wait for their backfill, one after the other. A pause does not stop the backfill.";
    Facts { making_up: 3, ..paused }.says("next_made_up", text);
    job()
        .with_spec(|spec| spec.schedule = Schedule::Manual)
        .says("next_manual", "The job has no schedule. schedctl run j starts a run.");
    job()
        .with_job(|job| job.next_run = Some(s(960)))
        .says("next_extra", "A run or a user planned a run on 12:16:00.");
    Facts { job: None, ..plain() }.says("next_over", "The job has no further runs.");
    job()
        .with_spec(|spec| spec.schedule = Schedule::Cron(vec!["@reboot".parse().unwrap()]))
        .with_job(|job| job.pending = None)
        .says("next_boot", "The job runs again after the next boot of a host.");
    plain()
        .with_job(|job| job.pending = None)
        .says("next_none", "The schedule of the job has no further times.");
    job()
        .with_job(|job| (job.pending, job.runs_left) = (None, Some(0)))
        .says("next_used_up", "The job has had as many runs as max_runs allows.");
    for (facts, pending) in [(job(), None), (about(fresh()), Some(s(0)))] {
        facts
            .with_spec(|spec| spec.schedule = Schedule::Delay(Duration::from_secs(300)))
            .with_job(|job| job.pending = pending)
            .says("next_after_end", "The next run is due 5m after the end of the open run.");
    }
}

#[test]
fn the_next_occurrence_is_never_in_the_past() {
    for (mode, code, text) in [
        (CatchUpMode::Latest, "next", "The next occurrence is due on 12:16:00."),
        (
            CatchUpMode::All,
            "next_owed",
            "The next run has been due since 12:01:00 and has not started.",
        ),
    ] {
        let owed = about(fresh())
            .with_job(|job| job.pending = Some(s(0)))
            .with_spec(|spec| spec.catch_up.mode = mode);
        owed.says(code, text);
        assert_eq!(owed.codes().last(), Some(&code));
    }
}
