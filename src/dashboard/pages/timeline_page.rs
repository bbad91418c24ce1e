//! The timeline: past runs from the history and coming starts from schedules, as a drawing of what
//! runs when, or as the load of each hour of the week.

use std::time::Duration;

use askama::Template;

use super::refused_filter::refused_filter;
use crate::cli::embedded::CliFailure;
use crate::cli::embedded::views::{
    ComingStarts, StartFilter, StartSpan, TimelineRuns, last_durations, read_coming, read_past_runs,
};
use crate::dashboard::badge::Badge;
use crate::dashboard::charts::{Gantt, GanttItem, HeatMap, TimeAxis};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::{DocumentTime, PageClock};
use crate::dashboard::page_link::{explain_path, query, run_path};
use crate::dashboard::page_request::{PageReading, PageRequest};
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::time::human_time::parse_instant;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// The maximum number of jobs whose coming starts are read.
const MOST_JOBS: usize = 500;
/// The maximum number of ended runs that are read.
const MOST_RUNS: usize = 500;
/// The maximum number of coming starts that are drawn.
const MOST_DRAWN: usize = 2_000;
/// The maximum number of coming starts that are counted.
const MOST_COUNTED: usize = 20_000;
/// The part of the shown time by which the drawing may be behind the present time.
const ROUND: u32 = 96;
/// The maximum number of rows of the table.
const MOST_LISTED: usize = 200;
/// The longest time that is shown.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);
/// The lengths of the time that is shown: the word, and the label.
const ZOOMS: [(&str, &str, Duration); 3] = [
    ("minute", "an hour", Duration::from_secs(3_600)),
    ("day", "a day", Duration::from_secs(86_400)),
    ("week", "a week", Duration::from_secs(7 * 86_400)),
];

#[derive(Template)]
#[template(path = "timeline.html")]
struct TimelinePage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    filter: TimelineFilter<'r>,
    /// The reason why the filter is refused.
    refused: Option<ShownText>,
    axis: TimeAxis,
    /// The times before and after which runs and starts were left out.
    runs_cut: Option<DocumentTime>,
    starts_cut: Option<DocumentTime>,
    /// The time behind which only the starts of jobs of files are shown.
    only_files_from: Option<DocumentTime>,
    drawing: Drawing,
    listed: Vec<ListedItem>,
    /// The number of runs and starts.
    count: usize,
}

enum Drawing {
    Gantt(Gantt),
    Heat(HeatMap),
}

/// The filter of the timeline, as the form shows it.
struct TimelineFilter<'r> {
    view: &'r str,
    zoom: &'r str,
    from: &'r str,
    to: &'r str,
    q: &'r str,
    queue: &'r str,
    tag: &'r str,
}

/// A run or a coming start in the table.
struct ListedItem {
    at: DocumentTime,
    job: ShownText,
    path: String,
    state: &'static str,
    /// The duration, or the expected duration.
    took: Option<String>,
}

impl<'r> TimelineFilter<'r> {
    fn of(request: &'r PageRequest) -> Self {
        let of = |name| request.parameter(name);
        let or = |name, word| Some(of(name)).filter(|text| !text.is_empty()).unwrap_or(word);
        Self {
            view: or("view", "gantt"),
            zoom: of("zoom"),
            from: of("from"),
            to: of("to"),
            q: of("q"),
            queue: of("queue"),
            tag: of("tag"),
        }
    }

    /// Returns the address of the timeline with these parameters and the same filter.
    fn address(&self, view: &str, zoom: &str, from: &str, to: &str) -> String {
        let query = query(&[
            ("view", if view == "gantt" { "" } else { view }),
            ("zoom", zoom),
            ("from", from),
            ("to", to),
            ("q", self.q),
            ("queue", self.queue),
            ("tag", self.tag),
        ]);
        format!("/timeline{query}")
    }

    fn is_heat(&self) -> bool {
        self.view == "heat"
    }

    /// Returns the word of the present zoom: a week for the load, a day for the drawing.
    fn zoom(&self) -> &'r str {
        match (self.zoom, self.is_heat()) {
            ("", true) => "week",
            ("", false) => "day",
            (zoom, _) => zoom,
        }
    }

    fn selects_jobs(&self) -> bool {
        !(self.q.is_empty() && self.queue.is_empty() && self.tag.is_empty())
    }

    /// Returns the time that is shown. Fails if it is empty or too long.
    fn axis(&self, clock: &PageClock) -> Result<TimeAxis, CliFailure> {
        let now = clock.instant();
        let length = ZOOMS.iter().find(|(word, ..)| *word == self.zoom()).map(|zoom| zoom.2);
        let length = length.unwrap_or(LONGEST);
        let time = |name: &str, text: &str| -> Result<Option<UnixMillis>, CliFailure> {
            if text.is_empty() {
                return Ok(None);
            }
            match parse_instant(text, now, &clock.zone()) {
                Ok(said) => Ok(Some(said.at)),
                Err(error) => Err(CliFailure::Invalid(format!("{name}: {error}"))),
            }
        };
        // The start is a round time, so that the page stays the same for a while.
        let round =
            i64::try_from(length.as_millis() / u128::from(ROUND)).unwrap_or(i64::MAX).max(1);
        let floor = UnixMillis::new(now.as_i64() / round * round).unwrap_or(now);
        let before = if self.is_heat() { Duration::ZERO } else { length / 3 };
        let (from, to) = match (time("from", self.from)?, time("to", self.to)?) {
            (Some(from), Some(to)) => (from, to),
            (Some(from), None) => (from, from.saturating_add(length)),
            (None, Some(to)) => (to.saturating_sub(length), to),
            (None, None) => {
                let from = floor.saturating_sub(before);
                (from, from.saturating_add(length))
            }
        };
        if from >= to || to.since(from) > LONGEST {
            return Err(CliFailure::Invalid(format!(
                "from and to: found {from} and {to}, wanted an end after the start, at most 31 days later"
            )));
        }
        Ok(TimeAxis { from, to })
    }
}

impl TimelinePage<'_> {
    fn zooms() -> &'static [(&'static str, &'static str, Duration)] {
        &ZOOMS
    }

    /// Returns the address of the time before (`-1`) or after (`1`) the one that is shown.
    fn moved(&self, by: i32) -> String {
        let length = self.axis.length();
        let part = if self.filter.is_heat() { length } else { length / 2 };
        let shifted = |at: UnixMillis| match by {
            1 => at.saturating_add(part).to_string(),
            _ => at.saturating_sub(part).to_string(),
        };
        let (from, to) = (shifted(self.axis.from), shifted(self.axis.to));
        self.filter.address(self.filter.view, self.filter.zoom, &from, &to)
    }

    /// Returns the address of another zoom, around now.
    fn zoomed(&self, zoom: &str) -> String {
        self.filter.address(self.filter.view, zoom, "", "")
    }

    fn from(&self) -> DocumentTime {
        DocumentTime::of(self.axis.from)
    }

    fn to(&self) -> DocumentTime {
        DocumentTime::of(self.axis.to)
    }
}

/// Returns the timeline.
pub(super) async fn timeline_page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    let request = reading.request;
    let (clock, now) = (&reading.clock, reading.clock.instant());
    let filter = TimelineFilter::of(request);
    let tags: Vec<&str> = request
        .parameters
        .iter()
        .filter(|(name, _)| name == "tag")
        .map(|(_, value)| value.as_str())
        .collect();
    let selected = filter.axis(clock).and_then(|axis| {
        let jobs = StartFilter::new(request.name_pattern().as_deref(), filter.queue, &tags)?;
        Ok((axis, jobs))
    });
    let (axis, jobs) = match selected {
        Ok(selected) => selected,
        Err(failure) => return refused_timeline(reading, filter, refused_filter(failure, &[])?),
    };
    reading.note_right_until(Some(now.saturating_add(axis.to.since(axis.from) / ROUND)));
    let most_starts = if filter.is_heat() { MOST_COUNTED } else { MOST_DRAWN };
    let (past, coming) = tokio::try_join!(
        async {
            if axis.from >= now {
                return Ok(TimelineRuns::default());
            }
            read_past_runs(reading.store, &jobs, axis.from, axis.to.min(now), MOST_RUNS).await
        },
        async {
            let from = axis.from.max(now);
            if from >= axis.to {
                return Ok(ComingStarts::default());
            }
            let span = StartSpan { from, to: axis.to, most_jobs: MOST_JOBS, most_starts };
            read_coming(reading.store, &jobs, span).await
        },
    )?;
    let (runs_cut, starts_cut) = (past.cut_at, coming.cut_at);
    let only_files_from = coming.only_files_from;
    let mut items = items(&past, now);
    let drawing = if filter.is_heat() {
        let past = items.iter().map(|item| (item.from, item.job.as_str()));
        let names: Vec<String> =
            coming.jobs.iter().map(|job| job.name.defined().as_str().to_owned()).collect();
        let starts = coming.starts.iter().map(|(at, job)| (*at, names[*job].as_str()));
        Drawing::Heat(HeatMap::of(past.chain(starts), clock))
    } else {
        items.extend(coming_items(reading, coming).await?);
        Drawing::Gantt(Gantt::of(&items, axis, clock))
    };
    items.sort_by_key(|item| item.from);
    page_text(&TimelinePage {
        layout: reading.layout("timeline"),
        clock,
        axis,
        filter,
        refused: None,
        runs_cut: runs_cut.map(DocumentTime::of),
        starts_cut: starts_cut.map(DocumentTime::of),
        only_files_from: only_files_from.map(DocumentTime::of),
        drawing,
        count: items.len(),
        listed: listed(&items, now),
    })
}

/// Returns the form of the timeline with a filter that is refused, and with the reason.
fn refused_timeline(
    reading: &PageReading<'_>,
    filter: TimelineFilter<'_>,
    why: ShownText,
) -> Result<String, CliFailure> {
    let clock = &reading.clock;
    let axis = TimelineFilter { from: "", to: "", ..filter }.axis(clock)?;
    page_text(&TimelinePage {
        layout: reading.layout("timeline"),
        clock,
        filter,
        refused: Some(why),
        axis,
        runs_cut: None,
        starts_cut: None,
        only_files_from: None,
        drawing: Drawing::Gantt(Gantt::of(&[], axis, clock)),
        listed: Vec::new(),
        count: 0,
    })
}

fn items(past: &TimelineRuns, now: UnixMillis) -> Vec<GanttItem> {
    let item = |run: &crate::cli::embedded::views::TimelineRun| GanttItem {
        job: run.run.job().defined().as_str().to_owned(),
        run: Some(run.run.to_string()),
        state: run.state.as_str(),
        from: run.from,
        to: run.to.unwrap_or(now).max(run.from),
    };
    past.runs.iter().map(item).collect()
}

/// Returns the coming starts, each as long as the last run of its job took.
async fn coming_items(
    reading: &PageReading<'_>,
    coming: ComingStarts,
) -> Result<Vec<GanttItem>, CliFailure> {
    let names: Vec<String> =
        coming.jobs.iter().map(|job| job.name.defined().as_str().to_owned()).collect();
    let took = last_durations(reading.store, coming.jobs).await?;
    let item = |(at, job): &(UnixMillis, usize)| GanttItem {
        job: names[*job].clone(),
        run: None,
        state: "planned",
        from: *at,
        to: at.saturating_add(took.get(*job).copied().flatten().unwrap_or_default()),
    };
    Ok(coming.starts.iter().map(item).collect())
}

/// Returns the rows of the table: those nearest to now, in the order of time.
fn listed(items: &[GanttItem], now: UnixMillis) -> Vec<ListedItem> {
    let behind = items.partition_point(|item| item.from < now);
    let half = MOST_LISTED / 2;
    let first = behind.saturating_sub(half.max(MOST_LISTED.saturating_sub(items.len() - behind)));
    let row = |item: &GanttItem| {
        let length = item.to.since(item.from);
        let explain = || explain_path(&item.job, &item.from.to_string());
        ListedItem {
            at: DocumentTime::of(item.from),
            job: ShownText::new(item.run.as_ref().unwrap_or(&item.job)),
            path: item.run.as_deref().map_or_else(explain, run_path),
            state: item.state,
            took: (length > Duration::ZERO).then(|| span(length)),
        }
    };
    items.iter().skip(first).take(MOST_LISTED).map(row).collect()
}
