//! The output of `list`: the selected jobs as a table or as JSON.

use super::list_flags::ListArgs;
use super::listed_jobs::{Pager, Wanted};
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::{
    Cell, Colour, Console, Detail, JobView, JsonArray, Relative, RunView, Table, shown_in, span,
};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::RunRecord;

/// The result of printing a list.
pub(super) struct Printed {
    /// The time of Redis before the jobs were read.
    pub(super) now: UnixMillis,
    /// The exit code: 1 if a job in the list cannot be read, else 0.
    pub(super) code: u8,
}

/// Prints the selected jobs, but at most `most` jobs.
pub(super) async fn print(
    places: &MergedPlaces,
    args: &ListArgs,
    wanted: &Wanted,
    most: usize,
    console: &mut Console,
) -> Result<Printed, CliFailure> {
    let now = places.home().now().await?;
    let mut printed = Printed { now, code: 0 };
    let mut sheet = Sheet::new(Relative { now }, args.wide);
    let mut pager = Pager::new(places, args, wanted, most).await?;
    while let Some(page) = pager.next(console, &mut printed.code).await? {
        sheet.page(&page, console);
        if console.is_closed() {
            return Ok(printed);
        }
    }
    let which = if pager.left == 0 && most < usize::MAX { "the first " } else { "" };
    sheet.end(which, wanted, console);
    Ok(printed)
}

/// The maximum number of characters of a schedule in the usual columns.
const SCHEDULE: usize = 32;
/// The maximum number of characters of a schedule in the usual columns on a narrow terminal.
const SHORT_SCHEDULE: usize = 8;
/// The end of a schedule that is cut.
const CUT: &str = "...";

/// The table of jobs, with the usual columns or with more columns.
enum JobTable {
    Usual(Table<7>),
    Wide(Table<12>),
}

/// The output of a list of jobs, as a table or JSON.
struct Sheet {
    when: Relative,
    local: Zone,
    table: JobTable,
    array: JsonArray,
    count: usize,
}

impl Sheet {
    fn new(when: Relative, is_wide: bool) -> Self {
        let table = if is_wide {
            JobTable::Wide(Table::new([
                "NEXT", "IN", "LAST", "AGO", "TOOK", "RESULT", "STATE", "QUEUE", "SOURCE",
                "SCHEDULE", "JOB", "REASON",
            ]))
        } else {
            JobTable::Usual(Table::new([
                "NEXT", "IN", "LAST", "RESULT", "STATE", "SCHEDULE", "JOB",
            ]))
        };
        Self { when, local: local_zone(), table, array: JsonArray::default(), count: 0 }
    }

    fn page(&mut self, views: &[JobView], console: &mut Console) {
        self.count += views.len();
        if console.is_json() {
            for view in views {
                self.array.push(console, &view.json());
            }
            return;
        }
        let rows: Vec<JobRow> = views.iter().map(|view| self.row(view, console.detail())).collect();
        match &mut self.table {
            JobTable::Usual(table) => {
                let most = match console.detail() {
                    Detail::Full => SCHEDULE,
                    Detail::Brief => SHORT_SCHEDULE,
                };
                table.add(rows.into_iter().map(|row| row.usual(most)).collect(), console);
            }
            JobTable::Wide(table) => {
                table.add(rows.into_iter().map(JobRow::wide).collect(), console);
            }
        }
    }

    fn row(&self, view: &JobView, detail: Detail) -> JobRow {
        let next = view.next_start().map(|(at, _)| at);
        let last = view.last.as_ref();
        let started = last.and_then(|run| run.started_at.or(run.finished_at));
        let (state, colour) = view.state_words();
        let shown = |at: Option<UnixMillis>| {
            Cell::maybe(at.map(|at| shown_in(detail, at, &self.local, self.when.now)))
        };
        let result = last.map(|run| run.state.as_str().replace('_', " "));
        let reason = last.and_then(|run| {
            RunView { record: run.clone(), zone: Zone::utc(), let_in: None, skip_cause: None }
                .reason()
        });
        JobRow {
            next: shown(next),
            left: Cell::maybe(next.map(|at| self.when.left(at))),
            last: shown(started),
            ago: Cell::maybe(started.map(|at| self.when.passed(at))),
            took: Cell::maybe(last.and_then(RunRecord::took).map(span)),
            result: Cell::maybe(result)
                .coloured(last.map_or(Colour::Plain, |run| run.state.into())),
            state: Cell::new(state).coloured(colour),
            queue: Cell::new(view.lane().queue().as_str()),
            source: Cell::new(view.source_name().unwrap_or(view.record.kind.as_str())),
            schedule: view.schedule(),
            job: Cell::new(view.record.name.as_str()),
            reason: Cell::maybe(reason),
        }
    }

    /// Prints the end of the list: the number of jobs, or the end of the JSON array. `which` is
    /// `the first ` if more jobs may follow, else empty.
    fn end(mut self, which: &str, wanted: &Wanted, console: &mut Console) {
        match &mut self.table {
            JobTable::Usual(table) => table.end(console),
            JobTable::Wide(table) => table.end(console),
        }
        if console.is_json() {
            self.array.end(console);
            return;
        }
        console.note_zone(&self.local);
        if self.count == 0 {
            console.note(if wanted.filters() { "no jobs match the filters" } else { "no jobs" });
        } else if console.is_terminal() {
            match self.count {
                1 => console.note(&format!("{which}1 job")),
                count => console.note(&format!("{which}{count} jobs")),
            }
        }
    }
}

/// The cells of a job, from which the columns of a table are chosen.
struct JobRow {
    next: Cell,
    left: Cell,
    last: Cell,
    ago: Cell,
    took: Cell,
    result: Cell,
    state: Cell,
    queue: Cell,
    source: Cell,
    schedule: Option<String>,
    job: Cell,
    reason: Cell,
}

impl JobRow {
    /// Returns the cells of the usual columns. A schedule of more than `most` characters is cut.
    fn usual(self, most: usize) -> [Cell; 7] {
        let schedule = self.schedule.map(|text| {
            if text.chars().count() <= most {
                return text;
            }
            text.chars().take(most - CUT.len()).chain(CUT.chars()).collect()
        });
        [self.next, self.left, self.ago, self.result, self.state, Cell::maybe(schedule), self.job]
    }

    /// Returns the cells of all columns.
    fn wide(self) -> [Cell; 12] {
        let schedule = Cell::maybe(self.schedule);
        [
            self.next,
            self.left,
            self.last,
            self.ago,
            self.took,
            self.result,
            self.state,
            self.queue,
            self.source,
            schedule,
            self.job,
            self.reason,
        ]
    }
}
