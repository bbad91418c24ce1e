//! The reader of the values in a tree. Each method expects a kind of value. It returns a checked
//! value, or notes a problem.
//!
//! Invariant: a method that returns `None` for an existing value has noted the reason, unless its
//! documentation says that it notes nothing.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::key_synonyms::key_meant;
use super::known_keys;
use super::problem::{Problems, TextSpan, nearest, one_of, quoted};
use super::redaction::Secrecy;
use super::text_node::{Node, NodeEntry, Value};
use super::typos::{Slip, Slips};
use schedd_schedule::time::duration::parse_duration;

/// A value, and the path of keys that leads to the value.
#[derive(Debug, Clone)]
pub(crate) struct Spot<'n> {
    pub(crate) path: String,
    node: &'n Node<'n>,
    secrecy: Secrecy,
}

/// A table, and the path of keys that leads to the table.
#[derive(Debug, Clone)]
pub(crate) struct TableReader<'n> {
    pub(crate) path: String,
    pub(crate) span: Option<TextSpan>,
    entries: &'n [NodeEntry<'n>],
    secrecy: Secrecy,
}

/// The bounds of a duration, and their wording for messages.
pub(crate) struct DurationBounds {
    pub(crate) range: RangeInclusive<Duration>,
    pub(crate) words: &'static str,
    /// An example of a duration within the bounds, for messages.
    pub(crate) example: &'static str,
}

const DAY: u64 = 86_400;

impl DurationBounds {
    /// Creates bounds from `least` to `most` milliseconds, with a wording and an example for
    /// messages.
    pub(crate) const fn millis(
        least: u64,
        most: u64,
        words: &'static str,
        example: &'static str,
    ) -> Self {
        Self { range: Duration::from_millis(least)..=Duration::from_millis(most), words, example }
    }

    /// Creates bounds from `least` to `most` seconds, with a wording and an example for messages.
    pub(crate) const fn secs(
        least: u64,
        most: u64,
        words: &'static str,
        example: &'static str,
    ) -> Self {
        Self::millis(least * 1_000, most * 1_000, words, example)
    }

    /// Creates bounds from `least` seconds to `days` days. Messages show `words` and `example`.
    pub(crate) const fn to_days(
        least: u64,
        days: u64,
        words: &'static str,
        example: &'static str,
    ) -> Self {
        Self::secs(least, days * DAY, words, example)
    }
}

impl<'n> TableReader<'n> {
    /// Returns the value of `key`. Returns `None` if the table does not have `key`, or if the
    /// value is JSON's null.
    pub(crate) fn get(&self, key: &str) -> Option<Spot<'n>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (entry.node.value != Value::Null).then(|| self.spot(entry))
    }

    /// Returns every key of the table with its place and value, sorted by key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'n str, Option<TextSpan>, Spot<'n>)> {
        self.entries
            .iter()
            .map(|entry| (entry.key.as_ref(), entry.key_span.clone(), self.spot(entry)))
    }

    fn spot(&self, entry: &'n NodeEntry<'n>) -> Spot<'n> {
        Spot {
            path: self.path_of(&entry.key),
            node: &entry.node,
            secrecy: self.secrecy.under(&entry.key),
        }
    }

    fn path_of(&self, key: &str) -> String {
        let key = self.secrecy.key(key);
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    /// Notes a fault for every unknown key. `later` are the keys of later versions. Returns the
    /// unknown keys, each with the known key that was probably meant.
    pub(crate) fn refuse_other_keys(
        &self,
        known: &[&[&str]],
        later: &[&str],
        problems: &mut Problems,
    ) -> Slips {
        self.refuse_keys_beyond(known, &[], later, problems)
    }

    /// Notes a fault for every unknown key that is not in `misplaced`. The caller notes why the
    /// keys in `misplaced` do not belong in this table. `later` are the keys of later versions.
    /// Returns the unknown keys, each with the known key that was probably meant.
    pub(crate) fn refuse_keys_beyond(
        &self,
        known: &[&[&str]],
        misplaced: &[&str],
        later: &[&str],
        problems: &mut Problems,
    ) -> Slips {
        let mut slips = Slips::default();
        let silent =
            |key: &str| misplaced.contains(&key) || known.iter().any(|keys| keys.contains(&key));
        for entry in self.entries.iter().filter(|entry| !silent(&entry.key)) {
            let message = if later.contains(&entry.key.as_ref()) {
                "key not supported by this version of schedd, remove the key".to_owned()
            } else if let Some((_, meant)) =
                known_keys::ELSEWHERE.iter().find(|(key, _)| *key == entry.key)
            {
                format!("unknown key here, wanted {meant}")
            } else if let Some(meant) = key_meant(&entry.key, &known.concat())
                .or_else(|| nearest(&entry.key, known.concat()))
            {
                slips.note(Slip::Of(meant.to_owned()));
                format!("unknown key, did you mean {meant:?}?")
            } else {
                if matches!(entry.node.value, Value::Text(_) | Value::Array(_) | Value::Table(_)) {
                    slips.note(Slip::AnotherWord);
                }
                unknown_key(&known.concat())
            };
            problems.unknown_key(&self.path_of(&entry.key), entry.key_span.clone(), message);
        }
        slips
    }
}

/// The maximum number of known keys that a message lists.
const NAMED: usize = 12;
/// Returns the message for a key that is unknown and not near any known key.
fn unknown_key(known: &[&str]) -> String {
    if known.len() <= NAMED {
        return format!("unknown key, wanted {}", one_of(known));
    }
    "unknown key; docs/jobs-toml.md and man jobs.toml list all keys".to_owned()
}

impl<'n> Spot<'n> {
    /// Creates the spot of the root of a tree, with an empty path. `secrecy` says which values of
    /// the tree may be shown.
    pub(crate) fn root(node: &'n Node<'n>, secrecy: Secrecy) -> Self {
        Self { path: String::new(), node, secrecy }
    }

    /// Returns the bytes of the file from which the value was read. Returns `None` if the value was
    /// not read from a file.
    pub(crate) fn span(&self) -> Option<TextSpan> {
        self.node.span.clone()
    }

    /// Returns a description of this value for a message, such as `integer 30`.
    pub(crate) fn found(&self) -> String {
        self.node.found(self.secrecy)
    }

    /// Notes a fault of this value as a whole.
    pub(crate) fn fault(&self, problems: &mut Problems, message: impl Into<String>) {
        problems.fault(&self.path, self.span(), message);
    }

    /// Notes a fault at the byte `offset` of this text. The fault points at that character if the
    /// file contains the text without escapes, else at the whole value.
    pub(crate) fn fault_at(
        &self,
        problems: &mut Problems,
        offset: usize,
        message: impl Into<String>,
    ) {
        let is_verbatim = |span: &TextSpan, text: &str| {
            span.len() == text.len() + 2 && !text.contains(['\n', '\\'])
        };
        let span = match (self.span(), self.as_text()) {
            (Some(span), Some(text)) if is_verbatim(&span, text) => {
                let at = span.start + 1 + offset.min(text.len());
                Some(at..at + 1)
            }
            (span, _) => span,
        };
        if self.secrecy.is_open() {
            problems.fault_within(
                &self.path,
                span,
                self.as_text().unwrap_or_default(),
                offset,
                message.into(),
            );
        } else {
            problems.fault(&self.path, span, message);
        }
    }

    /// Notes a fault with a description of this value and of the value wanted. Always returns
    /// `None`.
    pub(crate) fn wanted<T>(&self, problems: &mut Problems, wanted: impl Display) -> Option<T> {
        self.fault(problems, format!("found {}, wanted {wanted}", self.found()));
        None
    }

    /// Returns the value if it is a string, else `None`. Notes nothing, so the caller can try other
    /// kinds.
    pub(crate) fn as_text(&self) -> Option<&'n str> {
        if let Value::Text(text) = &self.node.value { Some(text) } else { None }
    }

    /// Returns the value as text if it is a string or an unquoted date, else `None`. Notes nothing.
    pub(crate) fn as_text_or_date(&self) -> Option<&'n str> {
        if let Value::Datetime(text) = &self.node.value { Some(text) } else { self.as_text() }
    }

    /// Returns the value as a table if it is a table, else `None`. Notes nothing.
    pub(crate) fn as_table(&self) -> Option<TableReader<'n>> {
        let Value::Table(entries) = &self.node.value else { return None };
        Some(TableReader {
            path: self.path.clone(),
            span: self.span(),
            entries,
            secrecy: self.secrecy,
        })
    }

    /// Returns the items if the value is an array, else `None`. Notes nothing.
    pub(crate) fn as_items(&self) -> Option<impl Iterator<Item = Spot<'n>> + use<'n>> {
        let Value::Array(items) = &self.node.value else { return None };
        let (path, secrecy) = (self.path.clone(), self.secrecy);
        Some(items.iter().enumerate().map(move |(index, node)| Spot {
            path: format!("{path}[{index}]"),
            node,
            secrecy,
        }))
    }

    /// Returns the value as a JSON text without spaces, with sorted keys. Notes nothing.
    pub(crate) fn json_text(&self) -> String {
        self.node.json_text()
    }

    /// Returns true if the value is an integer. Notes nothing.
    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.node.value, Value::Integer(_))
    }

    /// Returns the value as a table. Otherwise notes a fault, in which `wanted` describes the
    /// table, and returns `None`.
    pub(crate) fn table(&self, wanted: &str, problems: &mut Problems) -> Option<TableReader<'n>> {
        self.as_table().or_else(|| self.wanted(problems, wanted))
    }

    /// Returns the value if it is a string without NUL. Otherwise notes a fault and returns `None`.
    /// `example` appears in the message for a value that is not a string.
    pub(crate) fn text(&self, example: &str, problems: &mut Problems) -> Option<&'n str> {
        match self.as_text() {
            Some(text) if text.contains('\0') => {
                self.wanted(problems, "a string without the character NUL")
            }
            Some(text) => Some(text),
            None => self.wanted(problems, format_args!("a string such as {example:?}")),
        }
    }

    /// Returns the value, a string, parsed as `T`. Otherwise notes a fault and returns `None`. For
    /// a string that `T` refuses, the message is the error of its parser. For a value that is not a
    /// string, the message has `example`.
    pub(crate) fn parsed<T: FromStr>(&self, example: &str, problems: &mut Problems) -> Option<T>
    where
        T::Err: Display,
    {
        let parsed = self.text(example, problems)?.parse();
        parsed.map_err(|error: T::Err| self.fault(problems, error.to_string())).ok()
    }

    /// Returns the value as a duration within `bounds`, in whole milliseconds. Otherwise notes a
    /// fault and returns `None`.
    pub(crate) fn duration(
        &self,
        bounds: &DurationBounds,
        problems: &mut Problems,
    ) -> Option<Duration> {
        let DurationBounds { range, words, example } = bounds;
        let bare = match &self.node.value {
            Value::Integer(number) if *number >= 0 => Some(number.to_string()),
            Value::Text(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                Some(text.to_string())
            }
            _ => None,
        };
        if let Some(number) = bare {
            let seconds = format!("{number}s");
            return match parse_duration(&seconds) {
                Ok(duration) if range.contains(&duration) => self.wanted(
                    problems,
                    format_args!("a duration such as {example:?}: write {seconds:?}"),
                ),
                _ => self.wanted(problems, format_args!("a duration such as {example:?}, {words}")),
            };
        }
        let Some(text) = self.as_text() else {
            return self.wanted(problems, format_args!("a duration such as {example:?}"));
        };
        match parse_duration(text) {
            Err(error) => {
                self.fault(problems, error.to_string());
                None
            }
            Ok(duration) if !range.contains(&duration) => {
                self.fault(problems, format!("found {}, wanted {words}", quoted(text)));
                None
            }
            Ok(duration) if duration.subsec_nanos() % 1_000_000 != 0 => {
                self.fault(problems, format!("found {}, wanted whole milliseconds", quoted(text)));
                None
            }
            Ok(duration) => Some(duration),
        }
    }

    /// Returns the value as an integer within `range`. Otherwise notes a fault and returns `None`.
    pub(crate) fn integer<N>(&self, range: &RangeInclusive<N>, problems: &mut Problems) -> Option<N>
    where
        N: TryFrom<i128> + PartialOrd + Display,
    {
        let number = if let Value::Integer(number) = self.node.value {
            N::try_from(number).ok()
        } else {
            None
        };
        match number {
            Some(number) if range.contains(&number) => Some(number),
            _ => self.wanted(
                problems,
                format_args!("an integer from {} to {}", range.start(), range.end()),
            ),
        }
    }

    /// Returns the value as a number, whole or not, that is more than 0 and at most `most`.
    /// Otherwise notes a fault, whose message has `example`, and returns `None`.
    pub(crate) fn positive_number(
        &self,
        most: f64,
        example: &str,
        problems: &mut Problems,
    ) -> Option<f64> {
        let number = match self.node.value {
            Value::Float(number) => number,
            #[expect(
                clippy::cast_precision_loss,
                reason = "an integer above 2^53 exceeds every bound, so its exact value is not needed"
            )]
            Value::Integer(number) => number as f64,
            _ => f64::NAN,
        };
        if number > 0.0 && number <= most {
            return Some(number);
        }
        self.wanted(
            problems,
            format_args!("a number such as {example}, more than 0, at most {most}"),
        )
    }

    /// Returns true if the value is a boolean. Notes nothing.
    pub(crate) fn is_flag(&self) -> bool {
        matches!(self.node.value, Value::Bool(_))
    }

    /// Returns the value as a boolean. Otherwise notes a fault and returns `None`.
    pub(crate) fn flag(&self, problems: &mut Problems) -> Option<bool> {
        if let Value::Bool(flag) = self.node.value {
            Some(flag)
        } else {
            self.wanted(problems, "true or false")
        }
    }

    /// Returns the value that `words` pairs with this text. Otherwise notes a fault and returns
    /// `None`.
    pub(crate) fn choice<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        if let Some(text) = self.as_text() {
            if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
                return Some(*value);
            }
            if let Some(meant) = nearest(text, words.iter().map(|(word, _)| *word)) {
                return self
                    .wanted(problems, format_args!("{}: did you mean {meant:?}?", list(words)));
            }
        }
        self.wanted(problems, list(words))
    }
}

fn list<T>(words: &[(&'static str, T)]) -> String {
    one_of(&words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>())
}
