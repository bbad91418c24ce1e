//! The coming starts of jobs by their schedules, in the order of time.
//!
//! Jobs are read in the order of their next starts, and starts are made in the order of time. So a
//! list that was cut is whole up to one time. The jobs of the nodes' files are read besides, so that a million
//! added jobs do not hide them: behind that time the list has only their starts.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::cli::failure::CliFailure;
use crate::cli::merged_places::{IndexEntry, MergedPlaces, Placed};
use schedd::engine::Definition;
use schedd_core::domain::name::name_pattern::NamePattern;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::timetable::Timetable;
use schedd_store::{IndexCursor, JobIndex, JobRecord, SourceKind, Store};

/// The maximum number of jobs of files. If there are more, they are read only as all other jobs.
const MOST_OF_FILES: usize = 1_000;
/// The number of starts after which other tasks get a turn.
const TURN: usize = 256;

/// The filter of a view by the jobs of starts and runs.
#[derive(Debug, Default)]
pub(crate) struct StartFilter {
    pattern: Option<NamePattern>,
    queue: Option<QueueName>,
    pub(super) tags: Vec<TagFilter>,
}

impl StartFilter {
    /// Returns the filter for names that match `pattern`, for a queue and for tags. An empty text
    /// filters nothing.
    pub(crate) fn new(
        pattern: Option<&str>,
        queue: &str,
        tags: &[&str],
    ) -> Result<Self, CliFailure> {
        let queue = Some(queue).filter(|queue| !queue.is_empty()).map(str::parse).transpose();
        let tags: Result<Vec<TagFilter>, _> = tags.iter().map(|tag| tag.parse()).collect();
        Ok(Self {
            pattern: pattern.map(NamePattern::new),
            queue: queue.map_err(|error| CliFailure::Invalid(format!("queue: {error}")))?,
            tags: tags.map_err(|error| CliFailure::Invalid(format!("tag: {error}")))?,
        })
    }

    /// Returns true if the filter selects jobs of this name. Jobs that deliver notices never are.
    pub(super) fn takes_name(&self, name: &JobName) -> bool {
        let matches = |pattern: &NamePattern| pattern.matches(name.defined().as_str());
        !name.is_hidden() && self.pattern.as_ref().is_none_or(matches)
    }

    pub(super) fn takes_queue(&self, queue: &QueueName) -> bool {
        self.queue.as_ref().is_none_or(|wanted| wanted == queue)
    }
}

/// A span of time with bounds for what is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartSpan {
    pub(crate) from: UnixMillis,
    /// The end of the span, which does not belong to it.
    pub(crate) to: UnixMillis,
    pub(crate) most_jobs: usize,
    pub(crate) most_starts: usize,
}

/// The coming starts of jobs.
#[derive(Debug, Default)]
pub(crate) struct ComingStarts {
    /// The jobs that start.
    pub(crate) jobs: Vec<JobRecord>,
    /// The starts in the order of time, each with the index of its job.
    pub(crate) starts: Vec<(UnixMillis, usize)>,
    /// The time behind which the list has no starts. `None` if it has all.
    pub(crate) cut_at: Option<UnixMillis>,
    /// The time behind which the list has only starts of jobs of the nodes' files. `None` if it has all.
    pub(crate) only_files_from: Option<UnixMillis>,
}

/// The times of one job from its next start on.
struct JobTimes {
    /// The schedule behind the next start. `None` for a job that runs once more.
    timetable: Option<Timetable>,
    record: JobRecord,
}

/// Reads the starts of the jobs that `filter` selects.
pub(crate) async fn read_coming(
    store: &Store,
    filter: &StartFilter,
    span: StartSpan,
) -> Result<ComingStarts, CliFailure> {
    let (places, start) = (MergedPlaces::of(store).await?, IndexCursor::lowest());
    let entries = places.page_of_jobs(JobIndex::Defined, &start, span.most_jobs).await?;
    let cut_at = cut_of(&entries, span.most_jobs).filter(|at| *at < span.to);
    let listed =
        if cut_at.is_some() { store.list_listed_by_nodes().await? } else { BTreeSet::new() };
    let has_files = listed.len() <= MOST_OF_FILES;
    let entries = entries.into_iter().filter_map(|(_, (place, name))| Some((place, name?)));
    let mut names: BTreeSet<Placed<JobName>> = entries.collect();
    if has_files {
        // The jobs of files are in the namespace itself.
        names.extend(listed.into_iter().map(|name| (0, name)));
    }
    let names = names.into_iter().filter(|(_, name)| filter.takes_name(name)).collect();
    let records = places.read_jobs(names).await?;
    let mut records: Vec<JobRecord> =
        records.into_iter().filter_map(|(_, record)| record.ok().flatten()).collect();
    let planned = |record: &JobRecord| record.pending.as_ref().map(RunId::due);
    // A job that was edited meanwhile may start behind the time up to which all jobs were read.
    records.retain(|record| {
        record.kind == SourceKind::File || cut_at.is_none_or(|at| planned(record) < Some(at))
    });
    let mut coming = starts_of(records, filter, span).await;
    if has_files {
        coming.keep_files_from(cut_at);
    } else {
        coming.cut_before(cut_at);
    }
    Ok(coming)
}

/// Returns the time at which a page of the index of jobs ends, if more jobs follow it.
pub(super) fn cut_of(entries: &[IndexEntry<JobName>], most: usize) -> Option<UnixMillis> {
    let (last, _) = entries.last().filter(|_| entries.len() == most)?;
    #[expect(clippy::cast_possible_truncation, reason = "a time in ms, or an infinity")]
    UnixMillis::new(last.score as i64).filter(|_| last.score.is_finite())
}

/// Returns the starts of the jobs with these records.
pub(super) async fn starts_of(
    records: Vec<JobRecord>,
    filter: &StartFilter,
    span: StartSpan,
) -> ComingStarts {
    let mut coming = ComingStarts::default();
    let mut times: Vec<Option<Timetable>> = Vec::new();
    let mut heap: BinaryHeap<Reverse<(UnixMillis, usize)>> = BinaryHeap::new();
    for record in records.into_iter().filter(JobRecord::is_live) {
        let Some((first, job)) = times_of(record, filter) else { continue };
        let first = match &job.timetable {
            Some(timetable) if first < span.from => timetable.next_after(before(span.from)),
            _ => Some(first).filter(|at| *at >= span.from),
        };
        let Some(first) = first.filter(|at| *at < span.to) else { continue };
        heap.push(Reverse((first, coming.jobs.len())));
        times.push(job.timetable);
        coming.jobs.push(job.record);
    }
    while let Some(Reverse((at, job))) = heap.pop() {
        if coming.starts.len() == span.most_starts {
            coming.cut_before(Some(at));
            break;
        }
        coming.starts.push((at, job));
        if coming.starts.len() % TURN == 0 {
            tokio::task::yield_now().await;
        }
        let next = times[job].as_ref().and_then(|timetable| timetable.next_after(at));
        heap.extend(next.filter(|next| *next < span.to).map(|next| Reverse((next, job))));
    }
    coming
}

impl ComingStarts {
    /// Removes the starts from `at` on, because others of that time are not known.
    pub(super) fn cut_before(&mut self, at: Option<UnixMillis>) {
        let Some(at) = at else { return };
        self.starts.retain(|(start, _)| *start < at);
        self.cut_at = self.cut_at.into_iter().chain([at]).min();
    }
}

impl ComingStarts {
    /// Removes the starts from `at` on, except those of jobs of files.
    fn keep_files_from(&mut self, at: Option<UnixMillis>) {
        let Some(at) = at else { return };
        let jobs = &self.jobs;
        self.starts.retain(|(start, job)| *start < at || jobs[*job].kind == SourceKind::File);
        self.only_files_from = Some(at);
    }
}

fn before(at: UnixMillis) -> UnixMillis {
    at.saturating_sub(std::time::Duration::from_millis(1))
}

/// Returns the next start of a job and its times from then on. Returns `None` for a job without a
/// planned run, and for one that the filter leaves out. A definition that cannot be read gives only
/// the planned run.
fn times_of(record: JobRecord, filter: &StartFilter) -> Option<(UnixMillis, JobTimes)> {
    let planned = record.pending.as_ref()?.due();
    let not_before = record.next_set.as_ref().map_or(planned, |(at, _)| *at);
    if !filter.takes_queue(record.lane.queue()) {
        return None;
    }
    if record.is_once && filter.tags.is_empty() {
        return Some((planned.max(not_before), JobTimes { timetable: None, record }));
    }
    let definition = Definition::of(record.clone()).ok();
    let tags = definition.as_ref().map(|known| &known.spec.tags);
    let is_tagged = tags.is_some_and(|tags| TagFilter::all_match(&filter.tags, tags));
    if !filter.tags.is_empty() && !is_tagged {
        return None;
    }
    let timetable = definition.and_then(|known| {
        let left = known.runs_left();
        let timetable = Some(known.timetable).filter(Timetable::has_times)?;
        Some(match left {
            Some(left) => timetable.ending_after(before(planned), left),
            None => timetable,
        })
    });
    Some((planned.max(not_before), JobTimes { timetable, record }))
}
