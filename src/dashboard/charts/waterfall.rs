//! The phases of a run, one below the other on one scale of time: from due to ready, each wait, to the
//! first start, each attempt, and from the end to its record.

use std::time::Duration;

use crate::dashboard::documents::{WaitDocument, WholeRunDocument};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// The width of the scale.
const WIDTH: u64 = 1_000;
/// The width of a phase that is too short to be seen.
const LEAST: u64 = 3;
/// The shortest time between two waits that is a phase of its own: a node needs some time for each step.
const NOTICED: Duration = Duration::from_millis(100);
/// The height of a phase with the gap behind it.
const STEP: u64 = 22;

/// The phases of a run.
pub(in crate::dashboard) struct Waterfall {
    pub(in crate::dashboard) phases: Vec<RunPhase>,
    /// The whole time on the scale.
    pub(in crate::dashboard) whole: String,
}

/// A phase: its word, its duration, and the place of its rectangle.
pub(in crate::dashboard) struct RunPhase {
    pub(in crate::dashboard) word: String,
    pub(in crate::dashboard) length: String,
    pub(in crate::dashboard) class: String,
    pub(in crate::dashboard) x: u64,
    pub(in crate::dashboard) y: u64,
    pub(in crate::dashboard) width: u64,
}

/// A phase before it has a place: its words, its class, its start and its end.
type Stretch = (String, String, UnixMillis, UnixMillis);

impl Waterfall {
    /// Returns the phases of a run until now, as far as they are known. A phase without a length is
    /// left out, but each attempt stays.
    pub(in crate::dashboard) fn of(document: &WholeRunDocument, now: UnixMillis) -> Self {
        let stretches = stretches(document, now);
        let from = stretches.iter().map(|(_, _, from, _)| *from).min().unwrap_or(now);
        let to = stretches.iter().map(|(_, _, _, to)| *to).max().unwrap_or(now);
        let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let whole = ms(to.since(from)).max(1);
        let place = |at: UnixMillis| ms(at.since(from)).saturating_mul(WIDTH) / whole;
        let phases = stretches.iter().zip(0..).map(|((word, class, start, end), row)| {
            let width = place(*end).saturating_sub(place(*start)).max(LEAST);
            RunPhase {
                word: word.clone(),
                length: span(end.since(*start)),
                class: class.clone(),
                x: place(*start).min(WIDTH - width.min(WIDTH)),
                y: row * STEP,
                width,
            }
        });
        Self { phases: phases.collect(), whole: span(to.since(from)) }
    }

    /// Returns the size of the drawing.
    pub(in crate::dashboard) fn size(&self) -> (u64, u64) {
        (WIDTH, STEP * self.phases.len().try_into().unwrap_or(0))
    }
}

fn stretches(document: &WholeRunDocument, now: UnixMillis) -> Vec<Stretch> {
    let run = &document.run;
    let due = run.due.at;
    let first_start = document.attempts.first().and_then(|attempt| attempt.started_at);
    let first_start = first_start.or(run.started_at).map(|time| time.at);
    let waited = run.waited_ms.map(Duration::from_millis);
    let ready = document.ready_at.map(|time| time.at);
    let ready = ready.or_else(|| Some(first_start?.saturating_sub(waited?))).unwrap_or(due);
    let ended = run.finished_at.map(|time| time.at);
    let before = first_start.or(ended).unwrap_or(now);
    let mut stretches = Vec::new();
    let mut free_from = due;
    if first_start.is_some() || ended.is_none() {
        free_from = ready.min(before);
        stretches.push(("due to ready".to_owned(), "planned".to_owned(), due, free_from));
    }
    let waits = waits(&document.waits, ended, now);
    let (early, late): (Vec<Stretch>, Vec<Stretch>) =
        waits.into_iter().partition(|(_, _, from, _)| *from < before);
    for (words, class, from, to) in early {
        if from.since(free_from) >= NOTICED {
            let words = "ready, not started".to_owned();
            stretches.push((words, "waiting".to_owned(), free_from, from));
        }
        let (from, to) = (from.max(free_from), to.min(before));
        free_from = free_from.max(to);
        stretches.push((words, class, from, to));
    }
    let rest = match (first_start, ended) {
        (Some(_), _) if stretches.len() > 1 => "free to start",
        (Some(_), _) => "ready to start",
        (None, None) => "ready, not started",
        (None, Some(_)) => "due to end",
    };
    stretches.push((rest.to_owned(), "waiting".to_owned(), free_from, before));
    stretches.retain(|(_, _, from, to)| to > from);
    let mut later = late;
    for attempt in &document.attempts {
        let Some(start) = attempt.started_at.map(|time| time.at) else { continue };
        let end = attempt.finished_at.map_or(now, |time| time.at).max(start);
        let class = attempt.state.as_str().replace('_', "-");
        later.push((format!("attempt {}", attempt.attempt), class, start, end));
    }
    later.sort_by_key(|(_, _, from, _)| *from);
    stretches.extend(later);
    if let (Some(end), Some(after)) = (run.finished_at, run.recorded_after_ms) {
        let recorded = end.at.saturating_add(Duration::from_millis(after));
        if after >= 1_000 {
            stretches.push(("end to record".to_owned(), "waiting".to_owned(), end.at, recorded));
        }
    }
    stretches
}

/// Returns the waits of a run as phases. One that nothing ended goes on until the end of the run, or
/// until now.
fn waits(waits: &[WaitDocument], ended: Option<UnixMillis>, now: UnixMillis) -> Vec<Stretch> {
    let phase = |wait: &WaitDocument| {
        let until = wait.until.map(|time| time.at).or(ended);
        let word = if until.is_some() { "waited" } else { "waits" };
        let words = format!("{word} for {}", wait.cause());
        let until = until.unwrap_or(now);
        (words, "gate".to_owned(), wait.from.at, until)
    };
    waits.iter().map(phase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: u64) -> String {
        format!("2026-11-27T10:00:{second:02}Z")
    }

    /// Returns the phases of a run that was due at second 0, at second 50, in seconds.
    fn phases(waits: &Value, attempts: &[(u64, Option<u64>)], end: Option<u64>) -> Vec<String> {
        let attempts: Vec<Value> = attempts
            .iter()
            .zip(1..)
            .map(|((from, to), number): (_, u32)| {
                json!({"attempt": number, "state": "failed", "started_at": at(*from), "finished_at": to.map(at)})
            })
            .collect();
        let document = json!({
            "run_id": "a@1", "job": "a", "kind": "regular", "queue": "default", "due": at(0),
            "state": "failed", "attempt": 1, "finished_at": end.map(at), "left_processes": false,
            "ready_at": at(1), "waits": waits, "queue_paused": false, "parents": [],
            "recoveries": 0, "attempts": attempts, "notices": [],
        });
        let document: WholeRunDocument = serde_json::from_value(document).unwrap();
        let second = |at: UnixMillis| at.as_i64() / 1_000 % 60;
        let now = at(50).parse().ok().and_then(UnixMillis::from_timestamp).unwrap();
        let words = stretches(&document, now)
            .into_iter()
            .map(|(words, _, from, to)| format!("{} to {}: {words}", second(from), second(to)));
        words.collect()
    }

    #[test]
    fn each_wait_is_a_phase_before_the_attempt_that_it_delayed() {
        let waits = json!([
            {"for": "overlap", "from": at(2), "until": at(5)},
            {"for": "group g", "from": at(5), "until": at(9)},
            {"for": "key k", "from": at(20), "until": at(22)},
        ]);
        let wanted = [
            "0 to 1: due to ready",
            "1 to 2: ready, not started",
            "2 to 5: waited for another run",
            "5 to 9: waited for group g",
            "9 to 10: free to start",
            "10 to 15: attempt 1",
            "20 to 22: waited for key k",
            "23 to 30: attempt 2",
        ];
        assert_eq!(phases(&waits, &[(10, Some(15)), (23, Some(30))], Some(30)), wanted);
    }

    #[test]
    fn a_wait_without_an_end_goes_on_until_now_or_to_the_end_of_the_run() {
        let waits = json!([{"for": "group g", "from": at(1), "until": null}]);
        let open = ["0 to 1: due to ready", "1 to 50: waits for group g"];
        assert_eq!(phases(&waits, &[], None), open);
        let ended = ["0 to 1: ready, not started", "1 to 40: waited for group g"];
        assert_eq!(phases(&waits, &[], Some(40)), ended);
        let none = ["0 to 1: due to ready", "1 to 50: ready, not started"];
        assert_eq!(phases(&json!([]), &[], None), none);
    }
}
