//! What `top` shows and what its keys do; pure: data and keys go in, wishes come out.
//!
//! Invariant: what is chosen is a job, a run or a queue and not a line, so a list that moves under the cursor never makes a key act
//! on something else; and nothing is cancelled before a person has said yes to that very run.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::lists::{Data, Pane, Row, Subject};
use super::pane_view;
use crate::cli::render::Colour;
use crate::domain::ids::{JobName, RunId};

/// Jobs paused or resumed here that are shown wherever they stand in the order.
const KEPT: usize = 20;
/// Lines that a page key moves.
const LEAP: usize = 10;
const LONGEST_FILTER: usize = 63;

/// What is wanted beside the first page of each list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Jobs to be shown wherever they stand.
    pub(super) kept: Vec<JobName>,
    /// What is looked at closely.
    pub(super) detail: Option<Subject>,
    /// Rises when something was done whose effect is to be seen at once.
    pub(super) turn: u64,
}

/// What somebody wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// Leave, with this code.
    Quit(u8),
    /// Pause a job or queue, or resume it.
    Switch(Subject),
    /// Run a job now.
    Run(JobName),
    /// Cancel a run.
    Cancel(RunId),
}

/// What the keys mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// The filter is being written.
    Filter,
    /// Whether this run is to be cancelled.
    Confirm(RunId),
    Help,
    /// One thing in full, from a line on; no lines = not read yet.
    Detail {
        subject: Subject,
        lines: Option<Vec<String>>,
        from: usize,
    },
}

/// By what the lists are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As each came: the next, the longest running and the last ended first.
    Time,
    Name,
    State,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::Time => Self::Name,
            Self::Name => Self::State,
            Self::State => Self::Time,
        }
    }
}

/// Where somebody is in a list.
#[derive(Debug, Clone, Default)]
struct Cursor {
    chosen: Option<String>,
    at: usize,
}

/// What is shown.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// What was read last.
    pub(super) data: Option<Data>,
    /// Why Redis does not answer, if it does not.
    pub(super) away: Option<String>,
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// How the lists are sorted.
    pub(super) order: Order,
    /// What was done last, and whether it went well.
    pub(super) message: Option<Result<String, String>>,
    /// Lines of one thing in full that are seen at once.
    pub(super) page: usize,
    cursors: [Cursor; 4],
    kept: Vec<JobName>,
    turn: u64,
}

impl Model {
    /// Before anything is known.
    pub(super) fn new() -> Self {
        Self {
            data: None,
            away: None,
            pane: Pane::Due,
            mode: Mode::Browse,
            filter: String::new(),
            order: Order::Time,
            message: None,
            page: 1,
            cursors: Default::default(),
            kept: Vec::new(),
            turn: 0,
        }
    }

    /// What is to be read.
    pub(super) fn asked(&self) -> Asked {
        let mut kept = self.kept.clone();
        kept.extend(self.filter.parse());
        let detail = match &self.mode {
            Mode::Detail { subject, .. } => Some(subject.clone()),
            _ => None,
        };
        Asked { kept, detail, turn: self.turn }
    }

    /// Takes what was read.
    pub(super) fn take_data(&mut self, data: Data) {
        self.away = None;
        self.data = Some(data);
        self.settle_all();
    }

    /// Takes that nothing could be read.
    pub(super) fn take_silence(&mut self, why: String) {
        self.away = Some(why);
    }

    /// Takes all that is known of one thing. Whoever looks at its end goes on doing so: a run that writes is followed.
    pub(super) fn take_detail(&mut self, of: &Subject, read: Vec<String>) {
        if let Mode::Detail { subject, lines, from } = &mut self.mode
            && subject == of
        {
            let (before, last) = (lines.as_ref().map_or(0, Vec::len), read.len().saturating_sub(self.page));
            let is_at_end = *from > 0 && *from >= before.saturating_sub(self.page);
            *from = if is_at_end { last } else { (*from).min(last) };
            *lines = Some(read);
        }
    }

    /// Takes what became of a wish.
    pub(super) fn take_answer(&mut self, answer: Result<String, String>) {
        self.message = Some(answer);
        self.turn += 1;
    }

    /// The rows of a list that the filter lets through, in their order.
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
            Order::Time => {}
            Order::Name => rows.sort_by_key(|row| row.subject.text()),
            // Trouble first; within a state as they came.
            Order::State => {
                let state = pane_view::state_column(pane);
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

    /// How many there are in a list, whatever the filter.
    pub(super) fn total(&self, pane: Pane) -> u64 {
        self.data.as_ref().map_or(0, |data| data.lists[pane as usize].total)
    }

    /// Where the chosen row of a list is.
    pub(super) fn position(&self, pane: Pane) -> usize {
        self.cursors[pane as usize].at
    }

    /// Takes a key; gives what it asks for.
    pub(super) fn take_key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Wish::Quit(130));
        }
        match &self.mode {
            Mode::Browse => self.browse(key.code),
            Mode::Filter => {
                self.write_filter(key.code);
                None
            }
            Mode::Confirm(run) => {
                let wish = matches!(key.code, KeyCode::Char('y' | 'Y')).then(|| Wish::Cancel(run.clone()));
                self.mode = Mode::Browse;
                wish
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

    fn browse(&mut self, key: KeyCode) -> Option<Wish> {
        self.message = None;
        let last = self.rows(self.pane).len().saturating_sub(1);
        let at = self.position(self.pane);
        match key {
            KeyCode::Char('q') => return Some(Wish::Quit(0)),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.pane = self.pane.moved(1),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.moved(3),
            KeyCode::Char(digit @ '1'..='4') => self.pane = Pane::numbered(digit).unwrap_or(self.pane),
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

    /// A key that is about the chosen row.
    fn act(&mut self, key: KeyCode) -> Option<Wish> {
        let rows = self.rows(self.pane);
        let Some(row) = rows.get(self.position(self.pane)).map(|row| (*row).clone()) else {
            self.message = Some(Err("there is nothing here to choose".to_owned()));
            return None;
        };
        // What a key acted on stays chosen wherever it moves: the next key is meant for it too.
        self.choose(self.position(self.pane));
        let subject = row.subject;
        match (key, subject.job().cloned()) {
            (KeyCode::Enter, _) => self.mode = Mode::Detail { subject, lines: None, from: 0 },
            (KeyCode::Char('p'), None) => return Some(Wish::Switch(subject)),
            (KeyCode::Char('p'), Some(job)) => {
                self.keep(job.clone());
                return Some(Wish::Switch(Subject::Job(job)));
            }
            (KeyCode::Char('r'), Some(job)) => return Some(Wish::Run(job)),
            (KeyCode::Char('c'), _) if row.run.is_some() => self.mode = row.run.map_or(Mode::Browse, Mode::Confirm),
            (KeyCode::Char('c'), _) => self.message = Some(Err(format!("nothing of {} can be cancelled", subject.text()))),
            _ => self.message = Some(Err("a queue cannot be run: choose a job in another list".to_owned())),
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

    /// Shows a job wherever it stands from now on.
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

    /// Finds what is chosen in rows that may have moved; what is gone gives way to what stands in its place.
    fn settle(&mut self, pane: Pane) {
        let Cursor { chosen, at } = self.cursors[pane as usize].clone();
        let rows = self.rows(pane);
        let found = chosen.as_ref().and_then(|chosen| rows.iter().position(|row| row.subject.text() == *chosen));
        let at = found.unwrap_or(at).min(rows.len().saturating_sub(1));
        // Before anybody has moved, the first row is chosen whatever it is.
        let chosen = if chosen.is_none() && at == 0 { None } else { rows.get(at).map(|row| row.subject.text()) };
        self.cursors[pane as usize] = Cursor { chosen, at };
    }
}
