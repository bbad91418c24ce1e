//! What runs when: a row for each job, past runs as filled bars and coming starts as dashed ones, and
//! above them how many run at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::time_axis::{AxisTick, TimeAxis, percent};
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::job_path;
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The length of a run that has none.
const A_MOMENT: Duration = Duration::from_millis(1);
/// The maximum number of jobs.
const MOST_ROWS: usize = 40;
/// The height of a row with the gap below it.
const ROW: usize = 22;
/// The height of the highest bar of the load.
const LOAD: u64 = 48;
/// The number of bars of the load.
const SLOTS: usize = 120;
/// The width of the narrowest bar, in percent.
const NARROWEST: f64 = 0.5;

/// A run, or a coming start.
#[derive(Debug, Clone)]
pub(in crate::dashboard) struct GanttItem {
    pub(in crate::dashboard) job: String,
    /// The run. `None` for a coming start.
    pub(in crate::dashboard) run: Option<String>,
    /// The state of the run, or `planned`.
    pub(in crate::dashboard) state: &'static str,
    pub(in crate::dashboard) from: UnixMillis,
    /// The end, or the end that is expected.
    pub(in crate::dashboard) to: UnixMillis,
}

/// The drawing of what runs when.
pub(in crate::dashboard) struct Gantt {
    pub(in crate::dashboard) rows: Vec<GanttRow>,
    pub(in crate::dashboard) height: usize,
    pub(in crate::dashboard) ticks: Vec<AxisTick>,
    /// The place of now. `None` if it is not in the span.
    pub(in crate::dashboard) now: Option<String>,
    pub(in crate::dashboard) load: Vec<LoadBar>,
    /// The highest number of runs at the same time.
    pub(in crate::dashboard) most_at_once: u64,
    /// The number of jobs for which there is no row.
    pub(in crate::dashboard) left_out: usize,
}

/// The row of a job.
pub(in crate::dashboard) struct GanttRow {
    pub(in crate::dashboard) name: ShownText,
    pub(in crate::dashboard) path: String,
    pub(in crate::dashboard) marks: Vec<GanttMark>,
}

/// A bar: a run, a start, or several with one state that are too close to be told apart.
pub(in crate::dashboard) struct GanttMark {
    pub(in crate::dashboard) class: String,
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) y: usize,
    pub(in crate::dashboard) width: String,
    /// A bar that stands for several runs is thin.
    pub(in crate::dashboard) height: usize,
    pub(in crate::dashboard) words: String,
}

/// The number of runs at the same time, at most, in a part of the span.
pub(in crate::dashboard) struct LoadBar {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) width: String,
    pub(in crate::dashboard) y: u64,
    pub(in crate::dashboard) height: u64,
}

impl Gantt {
    /// Returns the drawing of `items`, of which those nearest to now get rows.
    pub(in crate::dashboard) fn of(items: &[GanttItem], axis: TimeAxis, clock: &PageClock) -> Self {
        let now = clock.instant();
        let mut jobs: BTreeMap<&str, Vec<&GanttItem>> = BTreeMap::new();
        for item in items {
            jobs.entry(&item.job).or_default().push(item);
        }
        let distance = |item: &&GanttItem| item.from.as_i64().abs_diff(now.as_i64());
        let nearest = |items: &[&GanttItem]| items.iter().map(distance).min();
        let mut shown: Vec<(&str, Vec<&GanttItem>)> = jobs.into_iter().collect();
        let left_out = shown.len().saturating_sub(MOST_ROWS);
        if left_out > 0 {
            shown.sort_by_key(|(name, items)| (nearest(items), *name));
            shown.truncate(MOST_ROWS);
            shown.sort_by_key(|(name, _)| *name);
        }
        let rows: Vec<GanttRow> = shown
            .into_iter()
            .enumerate()
            .map(|(at, (name, items))| GanttRow {
                name: ShownText::new(name),
                path: job_path(name),
                marks: marks(items, at * ROW + 3, axis, clock),
            })
            .collect();
        let (load, most_at_once) = load(items, axis, now);
        Self {
            height: rows.len() * ROW,
            rows,
            ticks: axis.ticks(clock),
            now: (axis.from..axis.to).contains(&now).then(|| percent(axis.place(now))),
            load,
            most_at_once,
            left_out,
        }
    }
}

/// Returns the bars of one job. Bars of one state that are too close to each other become one.
fn marks(
    mut items: Vec<&GanttItem>,
    y: usize,
    axis: TimeAxis,
    clock: &PageClock,
) -> Vec<GanttMark> {
    struct Stretch<'i> {
        first: &'i GanttItem,
        from: f64,
        to: f64,
        count: usize,
    }
    let now = clock.instant();
    items.sort_by_key(|item| item.from);
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for item in items {
        let (from, to) = (axis.place(item.from), axis.place(item.to));
        // A short run of the past is not drawn into the future.
        let is_past = item.run.is_some() && item.to <= now;
        let from = if is_past { from.min(to - NARROWEST).max(0.0) } else { from };
        let to = to.max(from + NARROWEST);
        match stretches.last_mut() {
            Some(last) if last.first.state == item.state && from < last.to + NARROWEST => {
                last.to = last.to.max(to);
                last.count += 1;
            }
            _ => stretches.push(Stretch { first: item, from, to, count: 1 }),
        }
    }
    let mark = |stretch: Stretch<'_>| {
        let state = stretch.first.state.replace('_', " ");
        let time = clock.formatted(stretch.first.from, "%a %d %b %T");
        let words = match (stretch.count, &stretch.first.run) {
            (1, Some(run)) => format!("{time}: {run} {state}"),
            (1, None) => format!("{time}: {state}"),
            (count, _) => format!("{count} runs from {time}: {state}"),
        };
        // A bar at the right edge stays within the drawing.
        let from = stretch.from.min(100.0 - NARROWEST);
        GanttMark {
            class: stretch.first.state.replace('_', "-"),
            x: percent(from),
            y: if stretch.count > 1 { y + 4 } else { y },
            width: percent(stretch.to.min(100.0) - from),
            height: if stretch.count > 1 { 7 } else { 15 },
            words: ShownText::new(&words).as_str().to_owned(),
        }
    };
    stretches.into_iter().map(mark).collect()
}

/// Returns the bars of the load, and the highest number of runs at the same time.
fn load(items: &[GanttItem], axis: TimeAxis, now: UnixMillis) -> (Vec<LoadBar>, u64) {
    let mut changes: Vec<(UnixMillis, i64)> = Vec::with_capacity(items.len() * 2);
    for item in items.iter().filter(|item| item.from < axis.to && item.to >= axis.from) {
        changes.push((item.from, 1));
        // A run that ends when another starts does not run beside it.
        changes.push((item.to.max(item.from.saturating_add(A_MOMENT)), -1));
    }
    changes.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
    let width = 100.0 / SLOTS as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let slot_of = |at: UnixMillis| ((axis.place(at) / width) as usize).min(SLOTS - 1);
    let mut most = [0_i64; SLOTS];
    let (mut at_once, mut last) = (0_i64, 0);
    for (at, change) in changes {
        let slot = slot_of(at);
        for passed in &mut most[last..=slot] {
            *passed = (*passed).max(at_once);
        }
        at_once += change;
        most[slot] = most[slot].max(at_once);
        last = slot;
    }
    let highest = most.iter().copied().max().unwrap_or(0).max(0).unsigned_abs();
    let now = if now < axis.from { 0 } else { slot_of(now) };
    let bars = most.iter().enumerate().filter(|(_, count)| **count > 0).map(|(slot, count)| {
        let height = (count.unsigned_abs() * LOAD / highest.max(1)).max(2);
        #[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
        let x = slot as f64 * width;
        LoadBar {
            class: if slot <= now { "ended" } else { "coming" },
            x: percent(x),
            width: percent(width * 0.85),
            y: LOAD - height,
            height,
        }
    });
    (bars.collect(), highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::view_choices::ViewChoices;

    fn item(job: &str, state: &'static str, from: i64, to: i64) -> GanttItem {
        let at = |ms| UnixMillis::new(ms).unwrap();
        GanttItem { job: job.to_owned(), run: None, state, from: at(from), to: at(to) }
    }

    fn drawn(items: &[GanttItem]) -> Gantt {
        let at = |ms| UnixMillis::new(ms).unwrap();
        let clock = PageClock::new(at(50_000), &ViewChoices::default());
        Gantt::of(items, TimeAxis { from: at(0), to: at(100_000) }, &clock)
    }

    #[test]
    fn bars_of_one_state_that_touch_become_one_and_others_stay() {
        let items = [
            item("a", "succeeded", 10_000, 10_100),
            item("a", "succeeded", 10_200, 10_300),
            item("a", "failed", 10_400, 10_500),
            item("b", "planned", 90_000, 110_000),
        ];
        let gantt = drawn(&items);
        let classes: Vec<Vec<&str>> = gantt
            .rows
            .iter()
            .map(|row| row.marks.iter().map(|mark| mark.class.as_str()).collect())
            .collect();
        assert_eq!(classes, [vec!["succeeded", "failed"], vec!["planned"]]);
        assert!(gantt.rows[0].marks[0].words.starts_with("2 runs from "));
        assert_eq!(gantt.rows[1].marks[0].width, "10.00%");
        assert_eq!(gantt.now.as_deref(), Some("50.00%"));
    }

    #[test]
    fn the_load_counts_runs_that_overlap() {
        let one_by_one =
            [item("a", "succeeded", 0, 10_000), item("b", "succeeded", 10_000, 20_000)];
        assert_eq!(drawn(&one_by_one).most_at_once, 1);
        let together = [
            item("a", "succeeded", 0, 40_000),
            item("b", "failed", 10_000, 20_000),
            item("c", "planned", 15_000, 15_000),
        ];
        let gantt = drawn(&together);
        assert_eq!(gantt.most_at_once, 3);
        assert!(gantt.load.iter().all(|bar| bar.class == "ended" && bar.height <= LOAD));
    }

    #[test]
    fn the_jobs_nearest_to_now_get_the_rows() {
        let items: Vec<GanttItem> = (0..100)
            .map(|at| item(&format!("j{at:03}"), "succeeded", at * 1_000, at * 1_000 + 10))
            .collect();
        let gantt = drawn(&items);
        assert_eq!((gantt.rows.len(), gantt.left_out), (MOST_ROWS, 60));
        assert!(gantt.rows.iter().any(|row| row.name.as_str() == "j050"));
        assert!(gantt.rows.iter().all(|row| row.name.as_str() > "j020"));
    }
}
