//! The standard output and the standard error of a verb.
//!
//! Invariant: a reader that has gone is harmless: what is written for it is dropped, and verbs that only show may stop
//! ([`Console::is_closed`]). Anything else that keeps the output from being written makes the code 1.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;

use super::escape::{one_line, safe_json};
use super::times::Detail;
use crate::cli::args::Global;
use crate::cli::failure::Failure;

/// Columns of a terminal in which tables have room for whole instants.
const WIDE: u16 = 110;

/// What a text is coloured as on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Colour {
    Plain,
    Bold,
    Green,
    Yellow,
    Red,
    Dim,
}

/// Where lines go.
#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<Stdout>),
    /// Kept, for a screen to be made of them.
    Page(Vec<u8>),
}

/// Where a verb writes.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each asked for by its own name")]
pub(in crate::cli) struct Console {
    out: Sink,
    is_closed: bool,
    trouble: Option<io::Error>,
    is_json: bool,
    has_headers: bool,
    is_quiet: bool,
    is_terminal: bool,
    has_colour: bool,
    detail: Detail,
}

impl Console {
    /// The console the flags ask for.
    pub(in crate::cli) fn new(global: &Global) -> Self {
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
            has_colour: is_terminal && !is_dumb() && !unwanted("NO_COLOR"),
            detail: if is_terminal && has_few_columns() { Detail::Brief } else { Detail::Full },
        }
    }

    /// A console like this one whose lines are kept, for a person those of the standard error too: see [`Console::take_page`].
    pub(in crate::cli) fn page(&self) -> Self {
        Self { out: Sink::Page(Vec::new()), trouble: None, ..*self }
    }

    /// The same without colours.
    pub(in crate::cli) fn plain_page(&self) -> Self {
        Self { has_colour: false, ..self.page() }
    }

    /// What was kept since the last time.
    pub(in crate::cli) fn take_page(&mut self) -> String {
        match &mut self.out {
            Sink::Page(bytes) => String::from_utf8_lossy(&std::mem::take(bytes)).into_owned(),
            Sink::Stdout(_) => String::new(),
        }
    }

    /// Whether there are colours here.
    pub(in crate::cli) fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// Whether text can be put anywhere on a screen here.
    pub(in crate::cli) fn can_be_drawn_on(&self) -> bool {
        self.is_terminal && !self.is_json && !is_dumb()
    }

    /// Whether JSON was asked for.
    pub(in crate::cli) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether nothing but the result and errors was asked for.
    pub(in crate::cli) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether tables have a first line.
    pub(in crate::cli) fn has_headers(&self) -> bool {
        self.has_headers
    }

    /// Whether a person looks at the standard output.
    pub(in crate::cli) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How much room a table gives to an instant.
    pub(in crate::cli) fn detail(&self) -> Detail {
        self.detail
    }

    /// Whether nobody reads the standard output any more.
    pub(in crate::cli) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether nobody reads the standard output any more, as far as can be told without writing to it.
    pub(in crate::cli) fn is_deserted(&mut self) -> bool {
        let stdout = io::stdout();
        let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_told = rustix::event::poll(&mut asked, Some(&at_once)).is_ok();
        self.is_closed |= is_told && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        self.is_closed
    }

    /// Writes a line.
    pub(in crate::cli) fn line(&mut self, line: &str) {
        self.bytes(line.as_bytes());
        self.bytes(b"\n");
    }

    /// Writes bytes as they are.
    pub(in crate::cli) fn bytes(&mut self, bytes: &[u8]) {
        self.attempt(|out| out.write_all(bytes));
    }

    /// Hands on what is written so far.
    pub(in crate::cli) fn flush(&mut self) {
        self.attempt(|out| out.flush());
    }

    /// Writes a JSON document on a line of its own.
    pub(in crate::cli) fn json(&mut self, document: &Value) {
        self.json_text(document);
        self.bytes(b"\n");
    }

    /// Writes a JSON value; nothing that steers a terminal on one.
    fn json_text(&mut self, value: &Value) {
        let text = value.to_string();
        let text = if self.is_terminal { safe_json(&text) } else { text.into() };
        self.bytes(text.as_bytes());
    }

    /// The text in a colour, if there are any here.
    pub(in crate::cli) fn paint(&self, text: &str, colour: Colour) -> String {
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

    /// Says something beside the result, unless quiet was asked for.
    pub(in crate::cli) fn note(&mut self, line: &str) {
        if !self.is_quiet {
            self.aside(&one_line(line));
        }
    }

    /// Says what is doubtful.
    pub(in crate::cli) fn warn(&mut self, line: &str) {
        self.aside(&format!("schedctl: warning: {}", one_line(line)));
    }

    /// Says what went wrong with one of several things, and goes on.
    pub(in crate::cli) fn error(&mut self, line: &str) {
        self.aside(&format!("schedctl: {}", one_line(line)));
    }

    /// Says what went wrong; its code.
    pub(in crate::cli) fn failure(&mut self, failure: &Failure) -> u8 {
        for line in failure.lines() {
            self.aside(&format!("schedctl: {line}"));
        }
        if io::stderr().is_terminal() {
            failure.pointer().iter().flatten().for_each(|line| self.aside(line));
        }
        failure.code()
    }

    /// Writes a line to the standard error as it is, after all that was written to the standard output.
    pub(in crate::cli) fn aside(&mut self, line: &str) {
        self.aside_bytes(line.as_bytes());
        self.aside_bytes(b"\n");
    }

    /// Writes bytes to the standard error as they are.
    pub(in crate::cli) fn aside_bytes(&mut self, bytes: &[u8]) {
        if let Sink::Page(page) = &mut self.out
            && self.is_terminal
            && !self.is_json
        {
            page.extend_from_slice(bytes);
            return;
        }
        self.flush();
        // There is nowhere left to complain about it.
        let _ = io::stderr().write_all(bytes);
    }

    /// Hands on what is left; the code to end with.
    pub(in crate::cli) fn close(mut self, code: u8) -> u8 {
        self.flush();
        match self.trouble.take() {
            None => code,
            Some(error) => {
                let _ = writeln!(io::stderr(), "schedctl: the standard output cannot be written: {error}");
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
        };
        if let Err(error) = written {
            self.is_closed = true;
            // What is left in the buffer would be tried again when it is dropped.
            if let Sink::Stdout(out) = std::mem::replace(&mut self.out, Sink::Page(Vec::new())) {
                let (_, _) = out.into_parts();
            }
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.trouble = Some(error);
            }
        }
    }
}

/// Whether the terminal is one that only writes on.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Whether the terminal is known to be narrow; one that does not know its size says 0.
fn has_few_columns() -> bool {
    rustix::termios::tcgetwinsize(io::stdout()).is_ok_and(|size| (1..WIDE).contains(&size.ws_col))
}

/// A JSON array written item by item, so that a long one takes no memory.
#[derive(Debug, Default)]
pub(in crate::cli) struct JsonArray {
    has_begun: bool,
}

impl JsonArray {
    /// Writes the next item.
    pub(in crate::cli) fn push(&mut self, console: &mut Console, item: &Value) {
        console.bytes(if self.has_begun { b",\n" } else { b"[" });
        self.has_begun = true;
        console.json_text(item);
    }

    /// Writes the end.
    pub(in crate::cli) fn end(self, console: &mut Console) {
        console.line(if self.has_begun { "]" } else { "[]" });
    }
}
