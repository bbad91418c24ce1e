//! The hours around now: how many runs ended and failed, and how many will start.

use super::time_axis::{AxisTick, TimeAxis, percent};
use crate::dashboard::page_clock::{DocumentTime, PageClock};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::SpanCounts;

/// The height of the highest bar.
const HEIGHT: u64 = 70;
/// The height of the lowest bar.
const LEAST: u64 = 3;

/// The strip of the hours around now.
pub(in crate::dashboard) struct DayStrip {
    pub(in crate::dashboard) bars: Vec<StripBar>,
    pub(in crate::dashboard) ticks: Vec<AxisTick>,
    /// The place of now.
    pub(in crate::dashboard) now: String,
    /// The spans in which something happened or will happen.
    pub(in crate::dashboard) rows: Vec<StripRow>,
    /// The number that the highest bar stands for.
    pub(in crate::dashboard) most: u64,
}

/// A bar. The bar of the failed runs of a span covers the foot of the bar of all its ended runs.
pub(in crate::dashboard) struct StripBar {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) width: String,
    pub(in crate::dashboard) y: u64,
    pub(in crate::dashboard) height: u64,
    pub(in crate::dashboard) words: String,
}

/// The numbers of a span.
pub(in crate::dashboard) struct StripRow {
    pub(in crate::dashboard) from: DocumentTime,
    pub(in crate::dashboard) ended: u64,
    pub(in crate::dashboard) failed: u64,
    pub(in crate::dashboard) starts: u64,
}

impl DayStrip {
    /// Returns the strip of the spans between `edges`. `starts` are the coming starts that are known
    /// from schedules; the number of jobs that are due in a span counts if it is higher.
    pub(in crate::dashboard) fn of(
        edges: &[UnixMillis],
        counts: &[SpanCounts],
        starts: &[UnixMillis],
        clock: &PageClock,
    ) -> Self {
        let now = clock.instant();
        let (from, to) = match edges {
            [from, .., to] => (*from, *to),
            _ => (now, now),
        };
        let axis = TimeAxis { from, to };
        let rows: Vec<StripRow> = edges
            .windows(2)
            .zip(counts)
            .map(|(span, count)| {
                let known = starts.iter().filter(|at| (span[0]..span[1]).contains(at)).count();
                StripRow {
                    from: DocumentTime::of(span[0]),
                    ended: count.ended,
                    failed: count.dead,
                    starts: if span[1] > now { count.due.max(known as u64) } else { 0 },
                }
            })
            .collect();
        let most = rows.iter().flat_map(|row| [row.ended, row.starts]).max().unwrap_or(0);
        let mut bars = Vec::new();
        for (row, span) in rows.iter().zip(edges.windows(2)) {
            let (left, right) = (axis.place(span[0]), axis.place(span[1]));
            let time = clock.formatted(span[0], "%H:%M");
            for (class, count, words) in [
                ("ended", row.ended, "runs ended"),
                ("failed", row.failed, "runs failed"),
                ("coming", row.starts, "starts"),
            ] {
                if count == 0 {
                    continue;
                }
                let height = (count * HEIGHT / most.max(1)).max(LEAST);
                bars.push(StripBar {
                    class,
                    x: percent(left),
                    width: percent((right - left) * 0.8),
                    y: HEIGHT - height,
                    height,
                    words: format!("{time}: {count} {words}"),
                });
            }
        }
        let rows = rows.into_iter().filter(|row| row.ended + row.failed + row.starts > 0);
        Self {
            bars,
            ticks: axis.ticks(clock),
            now: percent(axis.place(now)),
            rows: rows.collect(),
            most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::view_choices::ViewChoices;

    #[test]
    fn bars_have_one_scale_and_only_the_future_has_starts() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        let clock = PageClock::new(at(20_000), &ViewChoices::default());
        let edges = [at(0), at(10_000), at(20_000), at(30_000), at(40_000)];
        let counts = [
            SpanCounts { ended: 10, dead: 2, due: 0 },
            SpanCounts { ended: 0, dead: 0, due: 7 },
            SpanCounts { ended: 0, dead: 0, due: 1 },
            SpanCounts::default(),
        ];
        let strip = DayStrip::of(&edges, &counts, &[at(25_000), at(26_000), at(45_000)], &clock);
        let bars: Vec<(&str, &str, u64)> =
            strip.bars.iter().map(|bar| (bar.class, bar.x.as_str(), bar.y)).collect();
        let wanted = [("ended", "0.00%", 0), ("failed", "0.00%", 56), ("coming", "50.00%", 56)];
        assert_eq!(bars, wanted);
        assert_eq!((strip.most, strip.rows.len(), strip.now.as_str()), (10, 2, "50.00%"));
        assert_eq!((strip.rows[1].starts, strip.rows[1].ended), (2, 0));
    }
}
