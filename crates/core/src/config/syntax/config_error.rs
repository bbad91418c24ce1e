//! The error for a configuration that cannot be used. It has every problem, and the text of the
//! file with the problems.

use std::fmt::{self, Write as _};

use super::problem::{Problem, TextSpan};

/// The reason why a configuration file cannot be used. The error is displayed with every problem,
/// each on a separate line.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    file_name: String,
    text: String,
    problems: Vec<Problem>,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Missing,
    Unreadable,
    Text,
}

/// The form in which problems are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendering {
    /// The form with a line for each problem, for logs and pipes.
    Lines,
    /// The form with the faulty line of the file and a caret under the fault, for a terminal.
    Carets,
}

impl ConfigError {
    /// Creates an error for problems inside `text`.
    pub(crate) fn in_text(file_name: &str, text: &str, problems: Vec<Problem>) -> Self {
        Self {
            file_name: file_name.to_owned(),
            text: text.to_owned(),
            problems,
            cause: Cause::Text,
        }
    }

    /// Creates an error for a file that does not exist.
    pub(crate) fn missing(file_name: &str) -> Self {
        Self { cause: Cause::Missing, ..Self::unreadable(file_name, "no such file".to_owned()) }
    }

    /// Creates an error for a file that cannot be compiled at all, such as a file that is not
    /// UTF-8.
    pub(crate) fn unreadable(file_name: &str, message: String) -> Self {
        let problem = Problem::new("", None, message);
        Self {
            file_name: file_name.to_owned(),
            text: String::new(),
            problems: vec![problem],
            cause: Cause::Unreadable,
        }
    }

    /// Returns true if the file does not exist.
    pub fn is_missing(&self) -> bool {
        self.cause == Cause::Missing
    }

    /// Returns every problem, in the order of the file. There is at least one problem.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the line and column, counted from 1, at which each of [`ConfigError::problems`]
    /// begins. `None` means a problem of the file as a whole.
    pub fn places(&self) -> Vec<Option<(usize, usize)>> {
        let lines = LineStarts::of(&self.text);
        let place = |span: &TextSpan| lines.place(&self.text, span);
        self.problems
            .iter()
            .map(|problem| problem.span.as_ref().map(place).map(|it| (it.line, it.column)))
            .collect()
    }

    /// Returns every problem with its position, without a line break at the end.
    pub fn rendered(&self, rendering: Rendering) -> String {
        render(&self.file_name, &self.text, &self.problems, rendering)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered(Rendering::Lines))
    }
}

/// The debug output omits the text of the file, which is long and may contain secrets.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigError")
            .field("file_name", &self.file_name)
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for ConfigError {}

/// Formats problems with their positions in `text`: `jobs.toml:3:9: jobs.backup.timeout: found
/// ...`.
fn render(file_name: &str, text: &str, problems: &[Problem], rendering: Rendering) -> String {
    let lines = LineStarts::of(text);
    let mut out = String::new();
    for problem in problems {
        if !out.is_empty() {
            out.push('\n');
        }
        match problem.span.as_ref().map(|span| lines.place(text, span)) {
            Some(place) => {
                let _ = write!(out, "{file_name}:{}:{}: {problem}", place.line, place.column);
                if rendering == Rendering::Carets {
                    place.draw(&mut out);
                }
            }
            None => {
                let _ = write!(out, "{file_name}: {problem}");
            }
        }
    }
    out
}

/// The byte offset at which each line of a text begins.
struct LineStarts(Vec<usize>);

/// A position in a text, counted from 1, with columns in characters.
struct Place<'t> {
    line: usize,
    column: usize,
    /// The number of characters that the problem covers on its line.
    width: usize,
    source: &'t str,
}

impl LineStarts {
    fn of(text: &str) -> Self {
        let after_breaks =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    fn place<'t>(&self, text: &'t str, span: &TextSpan) -> Place<'t> {
        let at = char_start(text, span.start);
        let line = self.0.partition_point(|start| *start <= at).max(1);
        let start = self.0.get(line - 1).copied().unwrap_or(0);
        let source = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let count =
            |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count());
        let end = char_start(text, span.end.min(start + source.len()));
        Place { line, column: count(start, at) + 1, width: count(at, end).max(1), source }
    }
}

/// Returns the offset of the first byte of the character of `text` that contains the byte `at`.
/// Returns the length of `text` if `at` is past its end.
fn char_start(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl Place<'_> {
    fn draw(&self, out: &mut String) {
        const BEFORE: usize = 60;
        const SHOWN: usize = 120;
        let skipped = (self.column - 1).saturating_sub(BEFORE);
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let source: String = self.source.chars().skip(skipped).take(SHOWN).map(plain).collect();
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let caret = format!(
            "{}{}",
            " ".repeat(self.column - 1 - skipped),
            "^".repeat(self.width.min(SHOWN - BEFORE))
        );
        let _ = write!(out, "\n{number} | {}\n{margin} | {caret}", source.trim_end());
    }
}
