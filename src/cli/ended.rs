//! Which of the runs that ended are meant: the filters of `history`, `retry` and `purge`, and reading what they let through.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use super::failure::Failure;
use super::past::parse_past;
use super::render::shown;
use super::target::job_name;
use crate::domain::duration::parse_duration;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::store::{Ended, Letters, Notices, RunRecord, Store};

/// Runs read in one go.
const PAGE: usize = 500;

/// Filters by how and when a run ended.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Which {
    /// Only runs in this state; several with commas between them
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(super) state: Vec<RunState>,
    /// Only runs that ended then or later
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,
    /// Only runs that ended before
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<String>,
}

impl Which {
    /// Refuses states no run of `letters` is in.
    pub(super) fn check(&self, letters: Letters) -> Result<(), Failure> {
        match self.state.iter().find(|state| letters == Letters::Dead && !state.is_dead()) {
            Some(state) => Err(Failure::Invalid(format!(
                "--state {state}: no dead letter is in that state, wanted failed, timed_out or lost"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a run in this state is wanted.
    pub(super) fn takes(&self, state: RunState) -> bool {
        self.state.is_empty() || self.state.contains(&state)
    }

    /// Whether only runs that ended within some time are wanted.
    pub(super) fn has_bounds(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// The runs that may be meant, by what Redis has an order of.
    pub(super) async fn ended(&self, store: &Store, letters: Letters, job: Option<&str>) -> Result<Ended, Failure> {
        let job = job.map(job_name).transpose()?;
        let (mut since, mut until) = (None, None);
        if self.has_bounds() {
            let now = store.now().await?;
            since = self.since.as_deref().map(|text| instant("--since", text, now)).transpose()?;
            until = self.until.as_deref().map(|text| instant("--until", text, now)).transpose()?;
            if let Some(since) = since.filter(|since| *since > now) {
                let found = shown(since, &Zone::of_host());
                return Err(Failure::Invalid(format!(
                    "--since: found {found}, wanted a time that is past: no run has ended after it"
                )));
            }
        }
        if let (Some(from), Some(to)) = (since, until)
            && from >= to
        {
            let local = Zone::of_host();
            let (from, to) = (shown(from, &local), shown(to, &local));
            return Err(Failure::Invalid(format!(
                "--since is {from} and --until {to}: no run ends between, wanted --until behind"
            )));
        }
        Ok(Ended { letters, job, since, until, notices: Notices::With })
    }
}

/// An instant as `explain --at` has it, in this host's zone, or a duration: so long ago.
fn instant(flag: &str, text: &str, now: UnixMillis) -> Result<UnixMillis, Failure> {
    match parse_duration(text) {
        Ok(ago) => return Ok(now.saturating_sub(ago)),
        // Digits alone are a length without its unit, unless there are enough of them for seconds since 1970.
        Err(error) if text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(Failure::Invalid(format!("{flag}: {error}")));
        }
        Err(_) => {}
    }
    let read = parse_past(text, now, &Zone::of_host());
    read.map(|read| read.at).map_err(|error| Failure::Invalid(format!("{flag}: {error}; or how long ago, as in 24h")))
}

/// Whether nothing Redis has an order of is filtered out.
fn takes_all(ended: &Ended, which: &Which) -> bool {
    which.state.is_empty() && ended.notices == Notices::With
}

/// Reads page by page, newest first, what the filters let through.
pub(super) struct Reader<'s> {
    store: &'s Store,
    ended: Ended,
    which: &'s Which,
    position: usize,
    to_skip: usize,
    left: usize,
}

impl<'s> Reader<'s> {
    /// From the `offset`-th run that is let through on, at most `limit`.
    pub(super) fn new(store: &'s Store, ended: Ended, which: &'s Which, offset: usize, limit: usize) -> Self {
        // Where all are wanted Redis itself leaves out those at the beginning.
        let (position, to_skip) = if takes_all(&ended, which) { (offset, 0) } else { (0, offset) };
        Self { store, ended, which, position, to_skip, left: limit }
    }

    /// The next page, none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<RunRecord>>, Failure> {
        if self.left == 0 {
            return Ok(None);
        }
        let size = if takes_all(&self.ended, self.which) { PAGE.min(self.left) } else { PAGE };
        let page = self.store.read_ended(&self.ended, self.position, size).await?;
        if page.entries == 0 {
            return Ok(None);
        }
        self.position += page.entries;
        let mut runs = page.runs;
        runs.retain(|run| self.which.takes(run.state));
        let skipped = self.to_skip.min(runs.len());
        runs.drain(..skipped);
        self.to_skip -= skipped;
        runs.truncate(self.left);
        self.left -= runs.len();
        Ok(Some(runs))
    }

    /// All that is left of them.
    pub(super) async fn all(mut self) -> Result<Vec<RunRecord>, Failure> {
        let mut all = Vec::new();
        while let Some(runs) = self.next().await? {
            all.extend(runs);
        }
        Ok(all)
    }
}
