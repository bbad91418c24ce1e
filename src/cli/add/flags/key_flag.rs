//! A flag of `add` that sets a key of the job.

use clap::builder::EnumValueParser;
use clap::{Arg, ArgAction, ArgMatches, ValueEnum, value_parser};
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use crate::cli::shell::completion;

/// A flag that sets a key of the job.
#[derive(Debug)]
pub(crate) struct KeyFlag {
    /// The name of the flag without its dashes.
    pub(crate) name: &'static str,
    /// The key that the flag sets, with the table around it: `retry.delay`. Empty if the flag sets
    /// no key.
    pub(crate) key: &'static str,
    /// The form of the value.
    pub(crate) form: ValueForm,
    /// The placeholder for the value in `--help`.
    pub(crate) value_name: &'static str,
    /// The flag or group of flags that must also be given, or `None` if no other flag is required.
    pub(crate) requires: Option<&'static str>,
    /// The heading in `--help`. Empty if the flag has none.
    pub(crate) heading: &'static str,
    /// The text of the flag in `--help`. The text comes from doc comments, so each line begins with
    /// a space.
    pub(crate) help: &'static str,
}

/// The form of a flag's value on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// A text, which becomes the value of the key as it is.
    Text,
    /// A duration. clap accepts a leading minus, and the check of the definition refuses it.
    Duration,
    /// A text; the flag may be given several times.
    Texts,
    /// A path, or `-PATH` for an optional file; the flag may be given several times.
    Files,
    /// Texts with commas between them; the flag may be given several times.
    List,
    /// Exit codes or statuses with commas between them.
    Codes,
    /// An integer.
    Whole,
    /// An integer of at least 0.
    Count,
    /// A number of processors.
    Processors,
    /// No value: the flag means true.
    Switch,
    /// A time in any form that users write, such as `tomorrow 9am`.
    Time,
    /// A time in any form that users write; the flag may be given several times.
    Times,
    /// `first` or `second`, for a local time that the clock shows twice.
    Fold,
    /// A text, or `@FILE` for the content of a file.
    Content,
    /// A JSON value, or `@FILE` for the content of a file.
    Json,
    /// `NAME:VALUE`; the flag may be given several times.
    Headers,
    /// `NAME=VALUE`; the flag may be given several times.
    Variables,
    /// The target of a notification: a line for the shell, or a URL.
    Notice,
    /// The unique key of the job. The field is the mode of the key, such as `debounce`.
    UniqueKey(&'static str),
    /// The words after `--`.
    Command,
}

/// A choice between the two instants of a local time that the clock shows twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FoldFlag {
    #[value(alias = "0")]
    First,
    #[value(alias = "1")]
    Second,
}

/// The error for a text that is not a finite number of processors.
#[derive(Debug, thiserror::Error)]
#[error("wanted a number such as 0.5, more than 0, at most 1000")]
pub(crate) struct ProcessorsError;

/// Parses a number of processors. Infinity and NaN are refused, because the flags are checked as
/// JSON, which cannot express them.
fn processors(text: &str) -> Result<f64, ProcessorsError> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(ProcessorsError)
}

impl KeyFlag {
    /// Returns this flag as an argument for clap.
    pub(crate) fn arg(&self) -> Arg {
        let mut arg = Arg::new(self.name).value_name(self.value_name).help(self.help.trim_start());
        if !self.heading.is_empty() {
            arg = arg.help_heading(self.heading);
        }
        if let Some(other) = self.requires {
            arg = arg.requires(other);
        }
        if self.form == ValueForm::Command {
            return arg.last(true).num_args(1..).action(ArgAction::Append);
        }
        let arg = arg.long(self.name).action(ArgAction::Set);
        let arg = match self.completer() {
            Some(completer) => arg.add(completer),
            None => arg,
        };
        match self.form {
            ValueForm::Text
            | ValueForm::Time
            | ValueForm::Content
            | ValueForm::Json
            | ValueForm::Notice
            | ValueForm::UniqueKey(_)
            | ValueForm::Command => arg,
            ValueForm::Duration => arg.allow_hyphen_values(true),
            ValueForm::Texts | ValueForm::Times | ValueForm::Headers | ValueForm::Variables => {
                arg.action(ArgAction::Append)
            }
            ValueForm::Files => arg.action(ArgAction::Append).allow_hyphen_values(true),
            ValueForm::List => arg.action(ArgAction::Append).value_delimiter(','),
            ValueForm::Codes => {
                arg.action(ArgAction::Append).value_delimiter(',').value_parser(value_parser!(u16))
            }
            ValueForm::Whole => arg.value_parser(value_parser!(i64)).allow_negative_numbers(true),
            ValueForm::Count => arg.value_parser(value_parser!(u32)),
            ValueForm::Processors => arg.value_parser(processors).allow_negative_numbers(true),
            ValueForm::Switch => arg.action(ArgAction::SetTrue),
            ValueForm::Fold => arg.value_parser(EnumValueParser::<FoldFlag>::new()),
        }
    }

    /// Returns what a shell offers for the value. Returns `None` if only the user knows the value.
    fn completer(&self) -> Option<ArgValueCompleter> {
        Some(match self.key {
            "queue" => completion::queues(),
            "group" => completion::groups(),
            "tz" => completion::zones(),
            "not_while" | "after" | "after_any" | "after_failed" | "after_finished" => {
                completion::jobs()
            }
            "overlap" => completion::words(&["allow", "queue", "replace", "skip"]),
            "catch_up.mode" => completion::words(&["all", "latest", "skip"]),
            "delivery" => completion::words(&["at-least-once", "at-most-once"]),
            "retry.backoff" => completion::words(&["exponential", "fixed", "linear"]),
            "done_check.on" => completion::words(&["always", "retry"]),
            "dst.gap" => completion::words(&["run-after", "skip"]),
            "dst.fold" => completion::words(&["both", "first", "last"]),
            _ => return None,
        })
    }

    /// Returns the value of the flag as JSON. Returns `None` if the flag is not given.
    pub(crate) fn value_in(&self, matches: &ArgMatches) -> Option<Value> {
        let name = self.name;
        match self.form {
            ValueForm::Texts
            | ValueForm::Files
            | ValueForm::List
            | ValueForm::Times
            | ValueForm::Headers
            | ValueForm::Variables
            | ValueForm::Command => Some(matches.get_many::<String>(name)?.cloned().collect()),
            ValueForm::Codes => Some(matches.get_many::<u16>(name)?.copied().collect()),
            ValueForm::Whole => matches.get_one::<i64>(name).map(|number| json!(number)),
            ValueForm::Count => matches.get_one::<u32>(name).map(|number| json!(number)),
            ValueForm::Processors => matches.get_one::<f64>(name).map(|number| json!(number)),
            ValueForm::Switch => matches.get_flag(name).then_some(Value::Bool(true)),
            ValueForm::Fold => {
                matches.get_one::<FoldFlag>(name).map(|fold| json!(*fold == FoldFlag::Second))
            }
            ValueForm::Text
            | ValueForm::Duration
            | ValueForm::Time
            | ValueForm::Content
            | ValueForm::Json
            | ValueForm::Notice
            | ValueForm::UniqueKey(_) => matches.get_one::<String>(name).map(|text| json!(text)),
        }
    }
}
