//! The runs of a job as bars, the oldest on the left: the colour is the result, and the height is the
//! duration. A bar leads to the explanation of its run.

use crate::dashboard::documents::{RunDocument, millis};
use crate::dashboard::page_link::explain_path;

/// The height of the longest bar.
const HEIGHT: u64 = 72;
/// The height of the shortest bar, which also stands for a run without a duration.
const LEAST: u64 = 4;
/// The width of a bar with the gap behind it.
const STEP: usize = 12;
/// The number of bars for which the drawing has room.
pub(in crate::dashboard) const MOST_BARS: usize = 60;

/// The bars of a job's runs.
pub(in crate::dashboard) struct RunBars {
    pub(in crate::dashboard) width: usize,
    pub(in crate::dashboard) height: u64,
    pub(in crate::dashboard) bars: Vec<RunBar>,
    /// The longest duration.
    pub(in crate::dashboard) longest: Option<String>,
    pub(in crate::dashboard) late: Spread,
    pub(in crate::dashboard) took: Spread,
}

/// A bar: a run, and the place of its rectangle.
pub(in crate::dashboard) struct RunBar {
    pub(in crate::dashboard) x: usize,
    pub(in crate::dashboard) y: u64,
    pub(in crate::dashboard) height: u64,
    pub(in crate::dashboard) class: String,
    pub(in crate::dashboard) path: String,
    pub(in crate::dashboard) words: String,
}

/// The median and the 95th percentile of durations, as text.
pub(in crate::dashboard) struct Spread(pub(in crate::dashboard) Option<(String, String)>);

impl Spread {
    fn of(durations: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = durations.collect();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(place).copied().map(millis)
        };
        Self(at(50).zip(at(95)))
    }
}

impl RunBars {
    /// Returns the bars of these runs, of which the newest comes first.
    pub(in crate::dashboard) fn of(runs: &[RunDocument]) -> Self {
        let ended = || runs.iter().filter(|run| run.finished_at.is_some());
        let longest = ended().filter_map(|run| run.duration_ms).max();
        let shown: Vec<&RunDocument> = ended().take(MOST_BARS).collect();
        let first = MOST_BARS - shown.len();
        let bar = |(place, run): (usize, &&RunDocument)| {
            let part = run.duration_ms.map_or(0, |ms| ms * HEIGHT / longest.unwrap_or(1).max(1));
            let height = part.max(LEAST);
            let took = run.took().map(|took| format!(", took {took}")).unwrap_or_default();
            RunBar {
                x: (first + place) * STEP,
                y: HEIGHT - height,
                height,
                class: run.state.as_str().replace('_', "-"),
                path: explain_path(run.job.as_str(), run.run_id.as_str()),
                words: format!("{}: {}{took}", run.run_id, run.state.in_words()),
            }
        };
        Self {
            width: MOST_BARS * STEP,
            height: HEIGHT,
            bars: shown.iter().rev().enumerate().map(bar).collect(),
            longest: longest.map(millis),
            late: Spread::of(ended().filter_map(|run| run.late_ms)),
            took: Spread::of(ended().filter_map(|run| run.duration_ms)),
        }
    }
}
