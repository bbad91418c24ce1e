//! What comes next.

use std::time::Duration;

use super::scene::{about, fresh, s, started, the_job, with_job, with_spec};
use super::{Example, hold};
use crate::domain::explain::Facts;
use crate::domain::job::JobSpec;
use crate::domain::schedule::Schedule;

const AFTER_END: &str = "The next is due 5m after the end of a run that is not over.";

fn delayed(spec: &mut JobSpec) {
    spec.schedule = Schedule::Delay(Duration::from_secs(300));
}

const NEXT: &[Example] = &[
    ("next", || about(started(0)), "The next occurrence is due Sat 2026-11-21 12:16:00 UTC."),
    (
        "next_owed",
        || with_job(about(started(0)), |job| job.pending = Some(s(60))),
        "The next to start has been due since Sat 2026-11-21 12:01:00 UTC.",
    ),
    (
        "next_paused",
        || with_job(about(started(0)), |job| job.paused_at = Some(s(60))),
        "Nothing comes by its schedule while it is paused; schedctl resume lets it go on.",
    ),
    (
        "next_made_up",
        || Facts { making_up: 1, ..about(started(0)) },
        "One past occurrence is still to be made up for, which no pause holds.",
    ),
    (
        "next_made_up",
        || Facts { making_up: 3, ..with_job(about(started(0)), |job| job.paused_at = Some(s(60))) },
        "3 past occurrences are still to be made up for, one after the other, which no pause holds.",
    ),
    (
        "next_manual",
        || with_spec(the_job(vec![], None), |spec| spec.schedule = Schedule::Manual),
        "Nothing comes by itself; schedctl run j runs it.",
    ),
    ("next_over", || Facts { job: None, ..about(started(0)) }, "Nothing comes any more."),
    (
        "next_boot",
        || {
            let boot = || Schedule::Cron(vec!["@reboot".parse().unwrap()]);
            with_job(with_spec(the_job(vec![], None), |spec| spec.schedule = boot()), |job| job.pending = None)
        },
        "It runs again after the next boot of a host.",
    ),
    ("next_none", || with_job(about(started(0)), |job| job.pending = None), "Its schedule has no further time."),
    (
        "next_after_end",
        || with_job(with_spec(the_job(vec![], None), delayed), |job| job.pending = None),
        "The next is due 5m after the end of a run that is not over.",
    ),
    ("next_after_end", || with_job(with_spec(about(fresh()), delayed), |job| job.pending = Some(s(0))), AFTER_END),
    (
        "next_used_up",
        || with_job(the_job(vec![], None), |job| (job.pending, job.runs_left) = (None, Some(0))),
        "As many of its runs have begun as max_runs lets.",
    ),
];

#[test]
fn every_sentence_about_what_comes_next_is_made_true() {
    hold(NEXT);
}
