//! Sets the time of the next run of a job, for a run of the job or for an operator.
//!
//! A run asks with a line `next=TIME` or `next=DURATION` in the file `$SCHEDD_RESULT`, or with the
//! header field `Schedd-Next` of an HTTP answer.

use std::time::Duration;

use super::job_operations::random_word;
use super::operation_error::OperationError;
use crate::engine::dispatch::definition::Definition;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::duration::{format_duration, parse_duration};
use schedd_schedule::time::human_time::parse_instant;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{JobRecord, NextReply, Store};

/// The most tries for a job that changes between reading and writing.
const ROUNDS: usize = 8;
/// The start of the suffix in the id of a run that is planned for such a time. Random letters
/// follow, because the job may have had another run for this time.
const WORD: &str = "next";

/// Returns the time that `text` means: a duration from `now`, or a time as `--at` accepts it. A
/// local time is a time in `zone`. Fails for a time that is past, or later than `within` from `now`.
pub fn read_next(
    text: &str,
    now: UnixMillis,
    zone: &Zone,
    within: Duration,
) -> Result<UnixMillis, String> {
    let at = match parse_duration(text) {
        Ok(delay) => now.saturating_add(delay),
        Err(_) => parse_instant(text, now, zone).map_err(|error| error.to_string())?.at,
    };
    if at < now {
        return Err(format!("time {text:?} is past, wanted a time to come"));
    }
    if at > now.saturating_add(within) {
        return Err(format!(
            "time {text:?} is later than next_within = \"{}\" allows",
            format_duration(within)
        ));
    }
    Ok(at)
}

/// Sets the time `at` before which the next run of `name` does not start. `asked_by` is the run
/// that asks, or `None` for the user of the store.
pub async fn set_next(
    store: &Store,
    name: &JobName,
    at: UnixMillis,
    asked_by: Option<(&RunId, Fence)>,
) -> Result<NextReply, OperationError> {
    let run = RunId::manual(name.clone(), at, &format!("{WORD}{}", random_word()))?;
    for _ in 0..ROUNDS {
        let Some(job) = store.read_job(name).await?.filter(JobRecord::is_live) else {
            return Ok(NextReply::Unknown);
        };
        let definition = Definition::of(job.clone()).ok();
        if definition.as_ref().is_some_and(|definition| has_no_run_at(definition, at)) {
            return Ok(NextReply::Unknown);
        }
        let group = definition.and_then(|job| job.spec.group);
        match store.set_next(&job, at, &run, group.as_ref(), asked_by).await? {
            NextReply::Stale => {}
            reply => return Ok(reply),
        }
    }
    Err(OperationError::Contended(name.clone()))
}

/// Returns true if the rules of the job allow no run at `at`: the job has only one time, has begun
/// `max_runs` runs, or ends before `at`.
fn has_no_run_at(definition: &Definition, at: UnixMillis) -> bool {
    let Definition { record, spec, .. } = definition;
    record.is_once && record.pending.is_none()
        || definition.is_used_up()
        || spec.shape.end.is_some_and(|end| end < at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_time_is_a_duration_or_a_time_within_the_bound() {
        let (now, zone) = (UnixMillis::new(1_790_000_000_000).unwrap(), Zone::utc());
        let day = Duration::from_secs(86_400);
        let read = |text: &str| read_next(text, now, &zone, day);
        assert_eq!(read("5m"), Ok(now.saturating_add(Duration::from_secs(300))));
        assert_eq!(read("2026-09-21T15:00:00Z").unwrap().as_i64(), 1_790_002_800_000);
        assert!(read("2d").unwrap_err().contains("next_within = \"1d\""));
        assert!(read("2026-01-01T00:00:00Z").unwrap_err().contains("is past"));
        assert!(read("soon").unwrap_err().contains("soon"));
    }
}
