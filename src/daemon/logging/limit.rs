//! A limit for repeated log lines.
//!
//! Invariant: of the lines with the same message, job and level, only the first lines of each
//! period are written. Further lines are counted, and the number is logged after the period. A line
//! never counts towards the limit of another message.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use super::entry::{LogEntry, LogSource};

/// The length of the period in which repeated log lines are counted.
const WHILE: Duration = Duration::from_secs(10);
/// The most lines of schedd with the same level, job and message that are written in a period.
const MOST: u32 = 100;
/// The most output lines of one job with the same level that are written in a period. This is below
/// the number of lines that the journal accepts from a service.
const MOST_OF_A_JOB: u32 = 1_000;
/// The most kinds of lines that are counted. A kind is a level, a job and a message. If this many
/// kinds are counted, all lines of any further kind are written.
const KINDS: usize = 4_096;
/// The shortest time between two searches for kinds of lines whose counting period is over. A
/// search visits all kinds.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

/// The decision to write a line or only to count the line.
#[derive(Debug)]
pub(super) enum Admission {
    /// The line is written. If the value has the summary of the previous period, that summary is
    /// written first.
    Written(Option<LogEntry>),
    /// The line is not written and only counted for the summary.
    HeldBack,
}

/// A limiter of repeated log lines. It counts the recent lines of each kind. Lines of schedd are of
/// one kind if they have the same level, job and message. Output lines are of one kind if they have
/// the same level and job.
#[derive(Default)]
pub(super) struct LineLimit {
    kinds: Mutex<Kinds>,
}

#[derive(Default)]
struct Kinds {
    by_number: HashMap<u64, Kind>,
    /// The instant of the last search for kinds whose counting period is over.
    searched: Option<Instant>,
}

impl Kinds {
    /// Returns true if there is room for another kind. Removes kinds whose period is over if
    /// needed.
    fn has_room(&mut self, now: Instant) -> bool {
        let is_search_due =
            self.searched.is_none_or(|searched| now.duration_since(searched) >= SEARCH_EVERY);
        if self.by_number.len() >= KINDS && is_search_due {
            self.searched = Some(now);
            self.by_number
                .retain(|_, kind| now.duration_since(kind.since) < WHILE || kind.held_back > 0);
        }
        self.by_number.len() < KINDS
    }
}

struct Kind {
    since: Instant,
    written: u32,
    held_back: u64,
    /// The level of the summary of lines that were not written.
    level: Level,
    message: String,
    job: Option<String>,
    source: LogSource,
}

impl LineLimit {
    /// Decides whether `entry` is written now or only counted for a summary.
    pub(super) fn admit(&self, entry: &LogEntry, source: LogSource, now: Instant) -> Admission {
        let most = match source {
            LogSource::Schedd => MOST,
            LogSource::Job => MOST_OF_A_JOB,
        };
        let mut kinds = self.kinds();
        if let Some(kind) = kinds.by_number.get_mut(&number_of(entry, source)) {
            let mut summary = None;
            if now.duration_since(kind.since) >= WHILE {
                summary = kind.summary();
                (kind.since, kind.written, kind.held_back) = (now, 0, 0);
            }
            if kind.written >= most {
                kind.held_back += 1;
                return Admission::HeldBack;
            }
            kind.written += 1;
            return Admission::Written(summary);
        }
        if kinds.has_room(now) {
            let message = match source {
                LogSource::Schedd => entry.message.clone(),
                LogSource::Job => String::new(),
            };
            let job = entry.job().map(str::to_owned);
            let kind = Kind {
                since: now,
                written: 1,
                held_back: 0,
                level: entry.level,
                message,
                job,
                source,
            };
            kinds.by_number.insert(number_of(entry, source), kind);
        }
        Admission::Written(None)
    }

    /// Returns the summaries of lines that were not written, for all kinds of lines whose period is
    /// over. Starts the next period of these kinds.
    pub(super) fn summaries(&self, now: Instant) -> Vec<LogEntry> {
        let kinds = &mut self.kinds().by_number;
        let summaries = kinds
            .values()
            .filter(|kind| now.duration_since(kind.since) >= WHILE)
            .filter_map(Kind::summary)
            .collect();
        kinds.retain(|_, kind| now.duration_since(kind.since) < WHILE);
        summaries
    }

    /// Returns the summaries of lines that were not written, for the end of the process. Kinds of
    /// lines whose period is not over are included.
    pub(super) fn all_summaries(&self) -> Vec<LogEntry> {
        std::mem::take(&mut self.kinds().by_number).values().filter_map(Kind::summary).collect()
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn summary(&self) -> Option<LogEntry> {
        let (count, seconds) = (self.held_back, WHILE.as_secs());
        if count == 0 {
            return None;
        }
        let message = match self.source {
            LogSource::Schedd => {
                format!(
                    "{} ... {count} more lines with this message within {seconds} s",
                    self.message
                )
            }
            LogSource::Job => {
                format!("... {count} more lines of this job within {seconds} s were not logged")
            }
        };
        let entry = LogEntry::new(self.level, message).with("held_back", count.into());
        Some(match &self.job {
            Some(job) => entry.with("job", job.as_str().into()),
            None => entry,
        })
    }
}

/// Returns a digest of the kind of an entry. Two different kinds have the same digest with a
/// probability of 1 in 2^64.
fn number_of(entry: &LogEntry, source: LogSource) -> u64 {
    let mut hasher = DefaultHasher::new();
    (entry.level.as_str(), entry.job()).hash(&mut hasher);
    match source {
        LogSource::Schedd => entry.message.hash(&mut hasher),
        LogSource::Job => 0_u8.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(message: &str, job: &str) -> LogEntry {
        LogEntry::new(Level::WARN, message.to_owned()).with("job", job.into())
    }

    /// Returns how many of `count` copies of `entry` are written.
    fn written(
        limit: &LineLimit,
        count: usize,
        entry: &LogEntry,
        source: LogSource,
        now: Instant,
    ) -> usize {
        (0..count)
            .filter(|_| matches!(limit.admit(entry, source, now), Admission::Written(_)))
            .count()
    }

    #[test]
    fn of_many_like_each_other_the_first_are_written_and_the_others_are_counted() {
        let (limit, start) = (LineLimit::default(), Instant::now());
        assert_eq!(written(&limit, 223, &entry("again", "a"), LogSource::Schedd, start), 100);
        for other in [
            entry("another", "a"),
            entry("again", "b"),
            LogEntry { level: Level::ERROR, ..entry("again", "a") },
        ] {
            assert_eq!(written(&limit, 1, &other, LogSource::Schedd, start), 1, "{other:?}");
        }
        assert!(limit.summaries(start + Duration::from_millis(9_999)).is_empty());
        let summaries = limit.summaries(start + WHILE);
        let [summary] = &summaries[..] else { panic!("{summaries:?}") };
        assert_eq!(
            (summary.message.as_str(), summary.level, summary.job()),
            ("again ... 123 more lines with this message within 10 s", Level::WARN, Some("a"))
        );
        assert_eq!(
            written(&limit, 101, &entry("again", "a"), LogSource::Schedd, start + WHILE),
            100,
            "it begins anew"
        );
        assert_eq!(
            limit.all_summaries()[0].message,
            "again ... 1 more lines with this message within 10 s"
        );
    }

    #[test]
    fn the_next_of_its_kind_is_reported_of_first() {
        let (limit, start) = (LineLimit::default(), Instant::now());
        written(&limit, 102, &entry("again", "a"), LogSource::Schedd, start);
        let Admission::Written(Some(summary)) =
            limit.admit(&entry("again", "a"), LogSource::Schedd, start + WHILE)
        else {
            panic!("no summary")
        };
        assert!(summary.message.contains("2 more lines with this message"));
        assert!(limit.summaries(start + WHILE).is_empty());
    }

    #[test]
    fn what_a_job_writes_is_one_kind_whatever_it_says() {
        let (limit, now) = (LineLimit::default(), Instant::now());
        let count = (0..1_500)
            .map(|n| written(&limit, 1, &entry(&n.to_string(), "a"), LogSource::Job, now))
            .sum::<usize>();
        assert_eq!(count, 1_000);
        assert_eq!(
            limit.all_summaries()[0].message,
            "... 500 more lines of this job within 10 s were not logged"
        );
    }

    fn old_kind(since: Instant) -> Kind {
        let (level, source) = (Level::WARN, LogSource::Schedd);
        Kind { since, written: 1, held_back: 0, level, message: String::new(), job: None, source }
    }

    #[test]
    fn more_kinds_than_are_counted_are_all_written() {
        let (limit, now) = (LineLimit::default(), Instant::now());
        for n in 0..2 * KINDS {
            assert_eq!(
                written(&limit, 1, &entry("again", &n.to_string()), LogSource::Schedd, now),
                1
            );
        }
        assert_eq!(limit.kinds().by_number.len(), KINDS);
        // Kinds whose period is over make room, and are searched for once in a while only.
        let later = now + WHILE;
        assert!(limit.kinds().has_room(later));
        let mut kinds = limit.kinds();
        kinds.by_number.extend((0..).take(KINDS).map(|number| (number, old_kind(now))));
        assert!(!kinds.has_room(later + SEARCH_EVERY / 2));
        assert!(kinds.has_room(later + SEARCH_EVERY));
    }
}
