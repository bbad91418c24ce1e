//! The flags that set keys of the job, with their values on a command line.

use std::collections::BTreeMap;

use clap::ArgMatches;
use serde_json::Value;

use super::key_flag::{FoldFlag, KeyFlag};
use super::key_flags::KEY_FLAGS;

/// Returns the names of all flags that set keys. `--stdin` excludes these flags, because its lines
/// set the keys.
pub(crate) fn flag_names() -> impl Iterator<Item = &'static str> {
    KEY_FLAGS.iter().map(|flag| flag.name)
}

/// The given flags that set keys, each with its value as JSON.
#[derive(Debug, Default)]
pub(crate) struct GivenKeys(BTreeMap<&'static str, Value>);

impl GivenKeys {
    /// Returns the given flags with their values, in the order of `--help`.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static KeyFlag, &Value)> {
        KEY_FLAGS.iter().filter_map(|flag| Some((flag, self.0.get(flag.name)?)))
    }

    /// Returns true if the flag is given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// Returns the value of a flag that takes one text, or `None` if the flag is not given.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        self.0.get(flag)?.as_str()
    }

    /// Returns the values of a flag that may be given several times, in the given order.
    pub(crate) fn texts(&self, flag: &str) -> Vec<&str> {
        let values = self.0.get(flag).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the value of `--fold`, or `None` if the flag is not given.
    pub(crate) fn fold(&self) -> Option<FoldFlag> {
        let is_second = self.0.get("fold")?.as_bool()?;
        Some(if is_second { FoldFlag::Second } else { FoldFlag::First })
    }
}

impl clap::FromArgMatches for GivenKeys {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(
            KEY_FLAGS
                .iter()
                .filter_map(|flag| Some((flag.name, flag.value_in(matches)?)))
                .collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for GivenKeys {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(KEY_FLAGS.iter().map(KeyFlag::arg))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}
