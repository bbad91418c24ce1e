//! The phases of a run, one below the other on one scale of time: from due to ready, to the first
//! start, each attempt, and from the end to its record.

use std::time::Duration;

use crate::dashboard::documents::WholeRunDocument;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// The width of the scale.
const WIDTH: u64 = 1_000;
/// The width of a phase that is too short to be seen.
const LEAST: u64 = 3;
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

/// A phase before it has a place: its word, its class, its start and its end.
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
    let mut stretches = Vec::new();
    let mut add = |word: &str, class: &str, from: UnixMillis, to: UnixMillis| {
        if to > from {
            stretches.push((word.to_owned(), class.to_owned(), from, to));
        }
    };
    let is_open = run.finished_at.is_none();
    match first_start {
        Some(start) => {
            add("due to ready", "planned", due, ready.min(start));
            // The record has the wait for another run or at a gate that was the last.
            let wait = document.waited_from.map(|time| time.at.max(ready)).filter(|at| *at < start);
            let over = document.waited_until.map_or(start, |time| time.at.min(start));
            if let Some(wait) = wait {
                let place = document.waited_at.as_ref().filter(|place| place.as_str() != "overlap");
                let place = place.map_or_else(
                    || "waited for another run".to_owned(),
                    |place| format!("waited for {place}"),
                );
                add("ready, not started", "waiting", ready, wait);
                add(&place, "gate", wait, over);
                add("free to start", "waiting", over.max(wait), start);
            } else {
                add("ready to start", "waiting", ready, start);
            }
        }
        None if is_open => {
            add("due to ready", "planned", due, ready.min(now));
            let gate = document.waiting_for.as_ref().map(|what| format!("waits for {what}"));
            let class = if gate.is_some() { "gate" } else { "waiting" };
            add(gate.as_deref().unwrap_or("ready, not started"), class, ready, now);
        }
        None => {
            let end = run.finished_at.map_or(now, |time| time.at);
            add("due to end", "waiting", due, end);
        }
    }
    for attempt in &document.attempts {
        let Some(start) = attempt.started_at.map(|time| time.at) else { continue };
        let end = attempt.finished_at.map_or(now, |time| time.at).max(start);
        let class = attempt.state.as_str().replace('_', "-");
        stretches.push((format!("attempt {}", attempt.attempt), class, start, end));
    }
    if let (Some(end), Some(after)) = (run.finished_at, run.recorded_after_ms) {
        let recorded = end.at.saturating_add(Duration::from_millis(after));
        if after >= 1_000 {
            stretches.push(("end to record".to_owned(), "waiting".to_owned(), end.at, recorded));
        }
    }
    stretches
}
