//! The state of `top` and the meaning of its keys. The model is pure: data and keys go in, actions
//! come out.
//!
//! Invariant: the selection is a job, a run or a queue, not a line. So a key acts on the selected
//! object even if the rows have moved. A run is cancelled only after the user has confirmed the
//! cancelling of this run.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde::{Deserialize, Serialize};

use super::top_lists::{Pane, Row, TopData, TopDetail, TopSubject};
use crate::cli::render::Colour;
use schedd_schedule::names::{JobName, RunId};

/// The maximum number of jobs that `top` keeps in the list of due jobs after the user paused or
/// resumed them. Such a job is listed even if its position is beyond the end of the list.
const KEPT: usize = 20;
/// The number of lines by which a page key moves the cursor.
const LEAP: usize = 10;
const LONGEST_FILTER: usize = 63;

/// The data that `top` wants to read besides the first page of each list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TopRequest {
    /// The jobs to list even if their positions are beyond the end of the list of due jobs.
    pub(super) kept: Vec<JobName>,
    /// The object whose details `top` shows. `None` if `top` shows no details.
    pub(super) detail: Option<TopSubject>,
    /// A number that grows after each action. A new number makes `top` read the data again at once.
    #[serde(skip)]
    pub(super) turn: u64,
}

/// An action that the user requests by a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TopAction {
    /// Quit `top` with this exit code.
    #[serde(skip)]
    Quit(u8),
    /// Pause a job or queue, or resume a paused job or queue.
    Switch(TopSubject),
    /// Run this job now.
    Run(JobName),
    /// Cancel this run.
    Cancel(RunId),
}

/// The mode of `top`, which determines the meaning of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// The user types the text of the filter.
    Filter,
    /// The user is asked to confirm the cancelling of this run.
    Confirm(RunId),
    Help,
    /// The screen shows the details of one object. The first line on the screen is line `from`.
    /// `lines` is `None` until the details are read.
    Detail {
        subject: TopSubject,
        lines: Option<Vec<String>>,
        from: usize,
    },
}

/// The sort order of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopOrder {
    /// The order in which Redis was read: next due, longest running and last ended first.
    Time,
    Name,
    State,
}

impl TopOrder {
    fn next(self) -> Self {
        match self {
            Self::Time => Self::Name,
            Self::Name => Self::State,
            Self::State => Self::Time,
        }
    }
}

/// The selected row of a list, by its object and position.
#[derive(Debug, Clone, Default)]
struct Cursor {
    chosen: Option<String>,
    at: usize,
}

/// The state of the screen.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// The data of the last successful read; `None` before the first.
    pub(super) data: Option<TopData>,
    /// The reason why the last read failed, or `None` if it succeeded.
    pub(super) away: Option<String>,
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// The sort order of the lists.
    pub(super) order: TopOrder,
    /// The outcome of the last action: `Ok` after a success, `Err` after a failure. `None` if there
    /// is no message to show.
    pub(super) message: Option<Result<String, String>>,
    /// The number of lines of details that fit on the screen.
    pub(super) page: usize,
    cursors: [Cursor; 4],
    kept: Vec<JobName>,
    turn: u64,
}

impl Model {
    /// Creates the state before any data was read.
    pub(super) fn new() -> Self {
        Self {
            data: None,
            away: None,
            pane: Pane::Due,
            mode: Mode::Browse,
            filter: String::new(),
            order: TopOrder::Time,
            message: None,
            page: 1,
            cursors: Default::default(),
            kept: Vec::new(),
            turn: 0,
        }
    }

    /// Returns which jobs and details the next read should return besides the first page of each
    /// list.
    pub(super) fn asked(&self) -> TopRequest {
        let mut kept = self.kept.clone();
        kept.extend(self.filter.parse());
        let detail = match &self.mode {
            Mode::Detail { subject, .. } => Some(subject.clone()),
            _ => None,
        };
        TopRequest { kept, detail, turn: self.turn }
    }

    /// Shows `data`, which a successful read has returned.
    pub(super) fn take_data(&mut self, mut data: TopData) {
        self.away = None;
        if let Some(TopDetail { subject, lines }) = data.detail.take() {
            self.take_detail(&subject, lines);
        }
        self.data = Some(data);
        self.settle_all();
    }

    /// Records `why`, the reason for which a read failed.
    pub(super) fn take_silence(&mut self, why: String) {
        self.away = Some(why);
    }

    /// Replaces the shown details by `read`. If the screen showed the end of the details, it shows
    /// the new end, so that new output of a run is visible.
    pub(super) fn take_detail(&mut self, of: &TopSubject, read: Vec<String>) {
        if let Mode::Detail { subject, lines, from } = &mut self.mode
            && subject == of
        {
            let (before, last) =
                (lines.as_ref().map_or(0, Vec::len), read.len().saturating_sub(self.page));
            let is_at_end = *from > 0 && *from >= before.saturating_sub(self.page);
            *from = if is_at_end { last } else { (*from).min(last) };
            *lines = Some(read);
        }
    }

    /// Shows the outcome of an action as the message on the screen.
    pub(super) fn take_answer(&mut self, answer: Result<String, String>) {
        self.message = Some(answer);
        self.turn += 1;
    }

    /// Returns the rows of a list that match the filter, in the sort order.
    pub(super) fn rows(&self, pane: Pane) -> Vec<&Row> {
        let Some(data) = &self.data else { return Vec::new() };
        let wanted = self.filter.to_lowercase();
        let takes = |row: &&Row| {
            wanted.is_empty()
                || row.subject.text().contains(&wanted)
                || row.cells.iter().any(|cell| cell.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Row> = data.lists[pane as usize].rows.iter().filter(takes).collect();
        match self.order {
            TopOrder::Time => {}
            TopOrder::Name => rows.sort_by_key(|row| row.subject.text()),
            // Rows with problems come first. Rows of one state keep the order of reading.
            TopOrder::State => {
                let state = pane.state_column();
                let rank = |row: &Row| match row.colour {
                    Colour::Red => 0,
                    Colour::Yellow => 1,
                    _ => 2,
                };
                rows.sort_by_key(|row| (rank(row), state.and_then(|at| row.cells.get(at))));
            }
        }
        rows
    }

    /// Returns the number of entries of a list, including entries that the filter hides.
    pub(super) fn total(&self, pane: Pane) -> u64 {
        self.data.as_ref().map_or(0, |data| data.lists[pane as usize].total)
    }

    /// Returns the position of the selected row of a list.
    pub(super) fn position(&self, pane: Pane) -> usize {
        self.cursors[pane as usize].at
    }

    /// Handles a key. Returns the action that the key requests, if any.
    pub(super) fn take_key(&mut self, key: KeyEvent) -> Option<TopAction> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(TopAction::Quit(130));
        }
        match &self.mode {
            Mode::Browse => self.browse(key.code),
            Mode::Filter => {
                self.write_filter(key.code);
                None
            }
            Mode::Confirm(run) => {
                let action = matches!(key.code, KeyCode::Char('y' | 'Y'))
                    .then(|| TopAction::Cancel(run.clone()));
                self.mode = Mode::Browse;
                action
            }
            Mode::Help => {
                self.mode = Mode::Browse;
                None
            }
            Mode::Detail { .. } => {
                self.scroll(key.code);
                None
            }
        }
    }

    fn browse(&mut self, key: KeyCode) -> Option<TopAction> {
        self.message = None;
        let last = self.rows(self.pane).len().saturating_sub(1);
        let at = self.position(self.pane);
        match key {
            KeyCode::Char('q') => return Some(TopAction::Quit(0)),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.pane = self.pane.moved(1),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.moved(3),
            KeyCode::Char(digit @ '1'..='4') => {
                self.pane = Pane::numbered(digit).unwrap_or(self.pane);
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(at.saturating_add(1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.choose(at.saturating_sub(1)),
            KeyCode::PageDown => self.choose(at.saturating_add(LEAP).min(last)),
            KeyCode::PageUp => self.choose(at.saturating_sub(LEAP)),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(last),
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.settle_all();
            }
            KeyCode::Char('p' | 'r' | 'c') | KeyCode::Enter => return self.act(key),
            _ => {}
        }
        None
    }

    /// Handles a key that acts on the selected row. Returns the action that the key requests, if
    /// any.
    fn act(&mut self, key: KeyCode) -> Option<TopAction> {
        let rows = self.rows(self.pane);
        let Some(row) = rows.get(self.position(self.pane)).map(|row| (*row).clone()) else {
            self.message = Some(Err("this list has no rows".to_owned()));
            return None;
        };
        // The selected object stays selected wherever it moves, because the next key is meant for
        // it too.
        self.choose(self.position(self.pane));
        let subject = row.subject;
        match (key, subject.job().cloned()) {
            (KeyCode::Enter, _) => self.mode = Mode::Detail { subject, lines: None, from: 0 },
            (KeyCode::Char('p'), None) => return Some(TopAction::Switch(subject)),
            (KeyCode::Char('p'), Some(job)) => {
                self.keep(job.clone());
                return Some(TopAction::Switch(TopSubject::Job(job)));
            }
            (KeyCode::Char('r'), Some(job)) => return Some(TopAction::Run(job)),
            (KeyCode::Char('c'), _) if row.run.is_some() => {
                self.mode = row.run.map_or(Mode::Browse, Mode::Confirm);
            }
            (KeyCode::Char('c'), _) => {
                self.message = Some(Err(format!("{} has no run to cancel", subject.text())));
            }
            _ => {
                self.message =
                    Some(Err("a queue cannot be run: choose a job in another list".to_owned()));
            }
        }
        None
    }

    fn write_filter(&mut self, key: KeyCode) {
        let mut filter = self.filter.clone();
        match key {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => {
                self.mode = Mode::Browse;
                filter.clear();
            }
            KeyCode::Backspace if filter.pop().is_none() => self.mode = Mode::Browse,
            KeyCode::Char(c) if filter.chars().count() < LONGEST_FILTER => filter.push(c),
            _ => {}
        }
        self.set_filter(filter);
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.settle_all();
    }

    fn scroll(&mut self, key: KeyCode) {
        let Mode::Detail { lines, from, .. } = &mut self.mode else { return };
        let last = lines.as_ref().map_or(0, Vec::len).saturating_sub(self.page);
        match key {
            KeyCode::Down | KeyCode::Char('j') => *from = from.saturating_add(1).min(last),
            KeyCode::Up | KeyCode::Char('k') => *from = from.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => *from = from.saturating_add(LEAP).min(last),
            KeyCode::PageUp => *from = from.saturating_sub(LEAP),
            KeyCode::Home | KeyCode::Char('g') => *from = 0,
            KeyCode::End | KeyCode::Char('G') => *from = last,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.mode = Mode::Browse,
            _ => {}
        }
    }

    /// Keeps `job` in the list of due jobs, even if earlier jobs already fill the list.
    fn keep(&mut self, job: JobName) {
        if !self.kept.contains(&job) {
            self.kept.push(job);
        }
        let over = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..over);
    }

    fn choose(&mut self, at: usize) {
        let chosen = self.rows(self.pane).get(at).map(|row| row.subject.text());
        self.cursors[self.pane as usize] = Cursor { chosen, at };
    }

    fn settle_all(&mut self) {
        for pane in Pane::ALL {
            self.settle(pane);
        }
    }

    /// Finds the selected object again after the rows changed. If the object is gone, the row at
    /// its position is selected.
    fn settle(&mut self, pane: Pane) {
        let Cursor { chosen, at } = self.cursors[pane as usize].clone();
        let rows = self.rows(pane);
        let found = chosen
            .as_ref()
            .and_then(|chosen| rows.iter().position(|row| row.subject.text() == *chosen));
        let at = found.unwrap_or(at).min(rows.len().saturating_sub(1));
        // Until the user moves the cursor, the first row is selected, whatever it shows.
        let chosen = if chosen.is_none() && at == 0 {
            None
        } else {
            rows.get(at).map(|row| row.subject.text())
        };
        self.cursors[pane as usize] = Cursor { chosen, at };
    }
}
