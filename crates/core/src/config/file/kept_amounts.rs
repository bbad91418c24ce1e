//! The sections `[history]` and `[output]`: the retention of runs and their output.

use std::time::Duration;

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::name::byte_size::parse_size;

/// The bounds of `[history]`. Runs past any of these bounds are removed, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryConfig {
    /// The maximum number of ended runs kept for each job. 1 to 100,000.
    pub keep_per_job: usize,
    /// The maximum number of ended runs kept for all jobs together. 1 to 10,000,000.
    pub keep: usize,
    /// The time for which a run is kept after its end. 1 minute to 3,650 days.
    pub max_age: Duration,
}

/// The bounds of `[output]`, which limit how much output of runs is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputConfig {
    /// The number of bytes kept from the beginning of an attempt's output. At most 1 MiB.
    pub head: usize,
    /// The number of bytes kept from the end of an attempt's output. At most 1 MiB.
    pub tail: usize,
    /// The maximum number of bytes of output kept for each job. The oldest output is removed first.
    pub keep_bytes_per_job: u64,
    /// The maximum number of bytes of output kept for all jobs together. The oldest output is
    /// removed first.
    pub keep_bytes: u64,
    /// The time for which an output is kept after the last write to the output. 1 minute to 3,650
    /// days.
    pub max_age: Duration,
}

const MIB: u64 = 1 << 20;
const DAY: u64 = 86_400;
const AGES: DurationBounds = DurationBounds::secs(60, 3_650 * DAY, "1 minute to 3650 days", "30d");

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { keep_per_job: 1_000, keep: 100_000, max_age: Duration::from_secs(30 * DAY) }
    }
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self {
            head: 16 * 1024,
            tail: 48 * 1024,
            keep_bytes_per_job: 32 * MIB,
            keep_bytes: 256 * MIB,
            max_age: Duration::from_secs(7 * DAY),
        }
    }
}

/// Compiles the section `[history]`. A key that is missing or faulty gets its default.
pub(crate) fn compile_history(table: &TableReader<'_>, problems: &mut Problems) -> HistoryConfig {
    table.refuse_other_keys(&[known_keys::HISTORY], &[], problems);
    let plain = HistoryConfig::default();
    let mut count = |key: &str, most: usize| {
        table.get(key).and_then(|spot| spot.integer(&(1..=most), problems))
    };
    let (per_job, keep) = (count("keep_per_job", 100_000), count("keep", 10_000_000));
    HistoryConfig {
        keep_per_job: per_job.unwrap_or(plain.keep_per_job),
        keep: keep.unwrap_or(plain.keep),
        max_age: table
            .get("max_age")
            .and_then(|spot| spot.duration(&AGES, problems))
            .unwrap_or(plain.max_age),
    }
}

/// Compiles the section `[output]`. A key that is missing or faulty gets its default.
pub(crate) fn compile_output(table: &TableReader<'_>, problems: &mut Problems) -> OutputConfig {
    table.refuse_other_keys(&[known_keys::OUTPUT], &[], problems);
    let plain = OutputConfig::default();
    let part = |key: &str, or: usize, problems: &mut Problems| {
        let bytes = table.get(key).and_then(|spot| size(&spot, MIB, "at most 1MiB", problems));
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(or)
    };
    let all = |key: &str, or: u64, problems: &mut Problems| {
        table
            .get(key)
            .and_then(|spot| size(&spot, MIB * MIB, "at most 1024GiB", problems))
            .unwrap_or(or)
    };
    OutputConfig {
        head: part("head", plain.head, problems),
        tail: part("tail", plain.tail, problems),
        keep_bytes_per_job: all("keep_bytes_per_job", plain.keep_bytes_per_job, problems),
        keep_bytes: all("keep_bytes", plain.keep_bytes, problems),
        max_age: table
            .get("max_age")
            .and_then(|spot| spot.duration(&AGES, problems))
            .unwrap_or(plain.max_age),
    }
}

/// Compiles a size such as `"16KiB"` to bytes, at most `most` bytes. `words` describes the wanted
/// size in messages.
pub(crate) fn size(
    spot: &Spot<'_>,
    most: u64,
    words: &str,
    problems: &mut Problems,
) -> Option<u64> {
    let Some(text) = spot.as_text() else {
        return spot.wanted(problems, "a size such as \"256MiB\"");
    };
    match parse_size(text) {
        Ok(bytes) if bytes <= most => Some(bytes),
        Ok(_) => spot.wanted(problems, words),
        Err(error) => {
            spot.fault(problems, error.to_string());
            None
        }
    }
}
