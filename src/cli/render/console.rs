//! Standard output and standard error of a verb.
//!
//! Invariant: if a reader closes the output, no error is reported. Further output is dropped, and
//! verbs that only print may stop ([`Console::is_closed`]). Any other write error makes the exit
//! code 1.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use super::escape::{one_line, safe_json};
use super::time_words::Detail;
use crate::cli::embedded::output_pieces::{OutputForm, PieceSender, VerbStream};
use crate::cli::failure::{CliFailure, error_json};
use crate::cli::global::Global;
use schedd_schedule::names::RunId;
use schedd_schedule::time::zone::Zone;

/// The minimum width of a terminal, in columns, on which tables show instants in full.
const WIDE: u16 = 110;

/// The colour of a text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Colour {
    Plain,
    Bold,
    Green,
    Yellow,
    Red,
    Dim,
}

/// The destination of printed lines.
#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<Stdout>),
    /// A buffer whose lines are drawn on a screen.
    Page(Vec<u8>),
    /// A reader in another task of this process.
    Pieces(PieceSender),
}

/// The output of a verb, and the flags that decide its form.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent settings, each read by its own method"
)]
pub(crate) struct Console {
    out: Sink,
    is_closed: bool,
    trouble: Option<io::Error>,
    is_json: bool,
    has_headers: bool,
    is_quiet: bool,
    is_terminal: bool,
    /// True if standard error is a terminal.
    is_error_terminal: bool,
    has_colour: bool,
    detail: Detail,
    /// True if the reader may not see values that may be secret.
    conceals: bool,
}

impl Console {
    /// Creates the console with the form of output that the flags request.
    pub(crate) fn new(global: &Global) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let unwanted = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self {
            out: Sink::Stdout(BufWriter::new(io::stdout())),
            is_closed: false,
            trouble: None,
            is_json: global.json,
            has_headers: !global.no_headers,
            is_quiet: global.quiet,
            is_terminal,
            is_error_terminal: io::stderr().is_terminal(),
            conceals: false,
            has_colour: is_terminal && !is_dumb() && !unwanted("NO_COLOR"),
            detail: if is_terminal && has_few_columns() { Detail::Brief } else { Detail::Full },
        }
    }

    /// Creates a console for a verb that this process runs for an HTTP request.
    pub(crate) fn for_request(form: OutputForm, pieces: PieceSender) -> Self {
        Self {
            out: Sink::Pieces(pieces),
            is_closed: false,
            trouble: None,
            is_json: form.is_json,
            has_headers: form.has_headers,
            is_quiet: form.is_quiet,
            is_terminal: form.is_terminal,
            is_error_terminal: form.is_error_terminal,
            conceals: form.conceals,
            has_colour: form.has_colour,
            detail: if form.is_brief { Detail::Brief } else { Detail::Full },
        }
    }

    /// Returns a console with the same settings that collects its lines until
    /// [`Console::take_page`] returns them. If standard output is a terminal, lines for standard
    /// error are collected too.
    pub(crate) fn page(&self) -> Self {
        Self { out: Sink::Page(Vec::new()), trouble: None, ..*self }
    }

    /// Returns a console for text without colours. It collects all its lines, also those for
    /// standard error, until [`Console::take_page`] returns them.
    pub(crate) fn plain_page(&self) -> Self {
        Self { has_colour: false, is_terminal: true, is_json: false, ..self.page() }
    }

    /// Returns the collected lines since the last call.
    pub(crate) fn take_page(&mut self) -> String {
        match &mut self.out {
            Sink::Page(bytes) => String::from_utf8_lossy(&std::mem::take(bytes)).into_owned(),
            Sink::Stdout(_) | Sink::Pieces(_) => String::new(),
        }
    }

    /// Returns true if the output may contain colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// Returns true if standard output is a screen on which text can be placed anywhere.
    pub(crate) fn can_be_drawn_on(&self) -> bool {
        self.is_local() && self.is_terminal && !self.is_json && !is_dumb()
    }

    /// Returns true if the output goes to the terminal, pipe or file of this process.
    pub(crate) fn is_local(&self) -> bool {
        !matches!(self.out, Sink::Pieces(_))
    }

    /// Returns true if standard error is a terminal.
    pub(crate) fn is_error_terminal(&self) -> bool {
        self.is_error_terminal
    }

    /// Returns true if the terminal is narrow, so that tables show times in the brief form.
    pub(crate) fn is_brief(&self) -> bool {
        self.detail == Detail::Brief
    }

    /// Returns true if a user at a terminal can answer a question.
    pub(crate) fn can_ask(&self) -> bool {
        self.is_local() && self.is_error_terminal && io::stdin().is_terminal()
    }

    /// Returns true if the reader may not see values that may be secret.
    pub(crate) fn conceals(&self) -> bool {
        self.conceals
    }

    /// Returns true if JSON was requested.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Returns true if only the result and errors were requested.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns true if tables have a header line.
    pub(crate) fn has_headers(&self) -> bool {
        self.has_headers
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Prints the name of the zone of the times in a table, if the table shows times in the brief
    /// form, which has no zone. The head of a screen names the zone itself.
    pub(crate) fn note_zone(&mut self, zone: &Zone) {
        if self.detail == Detail::Brief && !matches!(self.out, Sink::Page(_)) {
            self.note(&format!("times in {}", zone.name()));
        }
    }

    /// Returns the form in which tables show instants: brief or full.
    pub(crate) fn detail(&self) -> Detail {
        self.detail
    }

    /// Returns true if the reader of standard output is gone, or a write to standard output failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Checks without a write if the reader of standard output is gone. Returns true if the reader
    /// is gone or a write failed before.
    pub(crate) fn is_deserted(&mut self) -> bool {
        if let Sink::Pieces(pieces) = &self.out {
            self.is_closed |= pieces.is_closed();
            return self.is_closed;
        }
        let stdout = io::stdout();
        let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_reported = rustix::event::poll(&mut asked, Some(&at_once)).is_ok();
        self.is_closed |=
            is_reported && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        self.is_closed
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(line.as_bytes());
        self.bytes(b"\n");
    }

    /// Writes bytes to standard output unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.attempt(|out| out.write_all(bytes));
    }

    /// Flushes standard output.
    pub(crate) fn flush(&mut self) {
        self.attempt(|out| out.flush());
    }

    /// Writes a JSON document as one line to standard output.
    pub(crate) fn json(&mut self, document: &impl Serialize) {
        self.json_text(document, "\n");
    }

    /// Writes a JSON value and `end` to standard output. On a terminal control characters are
    /// escaped.
    fn json_text(&mut self, value: &impl Serialize, end: &str) {
        // Documents have texts as keys, so none of them fails to serialize.
        let mut text = serde_json::to_string(value).unwrap_or_default();
        if self.is_terminal {
            text = safe_json(&text).into_owned();
        }
        text.push_str(end);
        self.bytes(text.as_bytes());
    }

    /// Returns `text` in a colour, or unchanged if the output has no colours.
    pub(crate) fn paint(&self, text: &str, colour: Colour) -> String {
        let code = match colour {
            _ if !self.has_colour => return text.to_owned(),
            Colour::Plain => return text.to_owned(),
            Colour::Bold => "1",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "31",
            Colour::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Writes a remark to standard error, unless `--quiet` is given.
    pub(crate) fn note(&mut self, line: &str) {
        if !self.is_quiet {
            self.aside(&one_line(line));
        }
    }

    /// Writes a warning to standard error.
    pub(crate) fn warn(&mut self, line: &str) {
        let line = format!("schedctl: warning: {}\n", one_line(line));
        match &self.out {
            Sink::Pieces(pieces) => {
                self.is_closed |= !pieces.send(VerbStream::Warnings, line.as_bytes());
            }
            Sink::Stdout(_) | Sink::Page(_) => self.aside_bytes(line.as_bytes()),
        }
    }

    /// Writes an error about one of the jobs, runs, queues or lines of a command to standard error.
    pub(crate) fn error(&mut self, line: &str) {
        let line = one_line(line);
        if self.is_json {
            self.aside(&error_json(&line, None).to_string());
        } else {
            self.aside(&format!("schedctl: {line}"));
        }
    }

    /// Writes an error about a run that continues to standard error.
    pub(crate) fn error_of_run(&mut self, run: &RunId, line: &str) {
        if !self.is_json {
            return self.error(line);
        }
        let mut document = error_json(&one_line(line), None);
        document["job"] = run.job().defined().as_str().into();
        document["run_id"] = run.to_string().into();
        self.aside(&document.to_string());
    }

    /// Writes a failure to standard error: as lines, or as one JSON object if JSON was requested.
    /// Returns its exit code.
    pub(crate) fn failure(&mut self, failure: &CliFailure) -> u8 {
        if self.is_json {
            self.aside(&failure.json().to_string());
            return failure.code();
        }
        for line in failure.lines() {
            self.aside(&format!("schedctl: {line}"));
        }
        if matches!(self.out, Sink::Stdout(_)) && io::stderr().is_terminal() {
            failure.pointer().iter().flatten().for_each(|line| self.aside(line));
        }
        failure.code()
    }

    /// Writes a line to standard error unchanged, after all earlier standard output.
    pub(crate) fn aside(&mut self, line: &str) {
        self.aside_bytes(line.as_bytes());
        self.aside_bytes(b"\n");
    }

    /// Writes bytes to standard error unchanged.
    pub(crate) fn aside_bytes(&mut self, bytes: &[u8]) {
        if let Sink::Page(page) = &mut self.out
            && self.is_terminal
            && !self.is_json
        {
            page.extend_from_slice(bytes);
            return;
        }
        if let Sink::Pieces(pieces) = &self.out {
            self.is_closed |= !pieces.send(VerbStream::Errors, bytes);
            return;
        }
        self.flush();
        // A failed write to standard error cannot be reported anywhere.
        let _ = io::stderr().write_all(bytes);
    }

    /// Flushes the remaining output. Returns the exit code of the process.
    pub(crate) fn close(mut self, code: u8) -> u8 {
        self.flush();
        match self.trouble.take() {
            None => code,
            Some(error) => {
                let _ = writeln!(
                    io::stderr(),
                    "schedctl: the standard output cannot be written: {error}"
                );
                if code == 0 { 1 } else { code }
            }
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.is_closed {
            return;
        }
        let written = match &mut self.out {
            Sink::Stdout(out) => write(out),
            Sink::Page(page) => write(page),
            Sink::Pieces(pieces) => write(pieces),
        };
        if let Err(error) = written {
            self.is_closed = true;
            // A dropped writer would write its buffer again, so the buffer is removed first.
            if let Sink::Stdout(out) = std::mem::replace(&mut self.out, Sink::Page(Vec::new())) {
                let (_, _) = out.into_parts();
            }
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.trouble = Some(error);
            }
        }
    }
}

/// Returns true if the terminal cannot move its cursor, according to `TERM`.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Returns true if the terminal is known to be narrow. A terminal that does not know its size
/// reports 0.
fn has_few_columns() -> bool {
    rustix::termios::tcgetwinsize(io::stdout()).is_ok_and(|size| (1..WIDE).contains(&size.ws_col))
}

/// A JSON array that is written item by item, so that a long array is never in memory as a whole.
#[derive(Debug, Default)]
pub(crate) struct JsonArray {
    has_begun: bool,
}

impl JsonArray {
    /// Writes the next item of the array.
    pub(crate) fn push(&mut self, console: &mut Console, item: &impl Serialize) {
        console.bytes(if self.has_begun { b",\n" } else { b"[" });
        self.has_begun = true;
        console.json_text(item, "");
    }

    /// Writes the end of the array.
    pub(crate) fn end(self, console: &mut Console) {
        console.line(if self.has_begun { "]" } else { "[]" });
    }
}
