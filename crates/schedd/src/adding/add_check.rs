//! The check of the times of a job that is added.

use schedd_core::config::Problem;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// Returns the fixed times of a job; none for a job with another schedule.
pub fn fixed_times(spec: &JobSpec) -> &[UnixMillis] {
    match &spec.schedule {
        Schedule::At(at) => std::slice::from_ref(at),
        Schedule::Instants(times) => times,
        _ => &[],
    }
}

/// Returns the problem of a job with a fixed time before `now`, or `None` if it has no such time.
pub fn past_problem(spec: &JobSpec, now: UnixMillis) -> Option<Problem> {
    let at = fixed_times(spec).iter().copied().find(|at| *at < now)?;
    let ago = span(now.since(at));
    let message = format!(
        "found {at}, which is {ago} ago, wanted a future time, or allow_past to run the job at once"
    );
    Some(Problem::new("at", None, message))
}
