//! The output of `list`: the selected jobs as a table or as JSON.

use super::list_flags::ListArgs;
use super::listed_jobs::{Pager, Wanted};
use crate::cli::failure::CliFailure;
use crate::cli::render::{Cell, Console, Detail, JobView, JsonArray, Relative, Table, shown_in};
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::store::Store;

/// The result of printing a list.
pub(super) struct Printed {
    /// The time of Redis before the jobs were read.
    pub(super) now: UnixMillis,
    /// The exit code: 1 if a job in the list cannot be read, else 0.
    pub(super) code: u8,
}

/// Prints the selected jobs, but at most `most` jobs.
pub(super) async fn print(
    store: &Store,
    args: &ListArgs,
    wanted: &Wanted,
    most: usize,
    console: &mut Console,
) -> Result<Printed, CliFailure> {
    let now = store.now().await?;
    let mut printed = Printed { now, code: 0 };
    let mut sheet = Sheet::new(Relative { now });
    let mut pager = Pager::new(store, args, most, wanted.includes_finished()).await?;
    while let Some(page) = pager.next(console, &mut printed.code).await? {
        let views: Vec<JobView> = page.into_iter().filter(|view| wanted.takes(view)).collect();
        let taken = pager.cut(views);
        sheet.page(&taken, console);
        if console.is_closed() {
            return Ok(printed);
        }
    }
    let which = if pager.left == 0 && most < usize::MAX { "the first " } else { "" };
    sheet.end(which, console);
    Ok(printed)
}

/// The output of a list of jobs, as a table or JSON.
struct Sheet {
    when: Relative,
    local: Zone,
    table: Table<6>,
    array: JsonArray,
    count: usize,
}

impl Sheet {
    fn new(when: Relative) -> Self {
        let table = Table::new(["NEXT", "IN", "LAST", "AGO", "STATE", "JOB"]);
        Self { when, local: Zone::of_host(), table, array: JsonArray::default(), count: 0 }
    }

    fn page(&mut self, views: &[JobView], console: &mut Console) {
        self.count += views.len();
        if console.is_json() {
            for view in views {
                self.array.push(console, &view.json());
            }
        } else {
            let rows: Vec<[Cell; 6]> =
                views.iter().map(|view| self.row(view, console.detail())).collect();
            self.table.page(&rows, console);
        }
    }

    fn row(&self, view: &JobView, detail: Detail) -> [Cell; 6] {
        let next = view.next_start().map(|(at, _)| at);
        let last = view.last.as_ref().and_then(|run| run.started_at.or(run.finished_at));
        let (state, colour) = view.state_word();
        [
            Cell::maybe(next.map(|at| shown_in(detail, at, &self.local, self.when.now))),
            Cell::maybe(next.map(|at| self.when.left(at))),
            Cell::maybe(last.map(|at| shown_in(detail, at, &self.local, self.when.now))),
            Cell::maybe(last.map(|at| self.when.passed(at))),
            Cell::new(state).coloured(colour),
            Cell::new(view.record.name.as_str()),
        ]
    }

    /// Prints the end of the list: the number of jobs, or the end of the JSON array. `which` is
    /// `the first ` if more jobs may follow, else empty.
    fn end(self, which: &str, console: &mut Console) {
        if console.is_json() {
            self.array.end(console);
            return;
        }
        console.note_zone(&self.local);
        if self.count == 0 {
            console.note("no jobs");
        } else if console.is_terminal() {
            match self.count {
                1 => console.note(&format!("{which}1 job")),
                count => console.note(&format!("{which}{count} jobs")),
            }
        }
    }
}
