//! The kinds of values that keys may have. A kind reads a checked value from the tree of a text,
//! and writes the value as JSON.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use super::json_sheet::Form;
use super::origin::Reading;
use crate::config::syntax::reader::{DurationBounds, Spot};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The kind of a key's value, such as a duration or a text: how schedd reads the value, and writes
/// it as JSON.
pub(crate) trait KeyKind {
    /// The type of a checked value.
    type Value;

    /// Returns the value at `spot`. Returns `None` if a fault was noted.
    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<Self::Value>;

    /// Returns the value as JSON, from which [`KeyKind::read`] reads the same value.
    fn write(&self, value: &Self::Value, form: Form) -> Value;
}

/// The kind of a value that may be absent.
pub(crate) struct Maybe<K>(pub(crate) K);

/// The kind of the values true and false.
pub(crate) struct FlagKind;

/// The kind of an integer within a range.
pub(crate) struct IntegerKind<N>(pub(crate) RangeInclusive<N>);

/// The kind of a value chosen from a list of words. The list pairs each word with its value.
pub(crate) struct WordKind<T: 'static>(pub(crate) &'static [(&'static str, T)]);

/// The kind of an instant. A local time is read in the zone of `Reading::clock`.
pub(crate) struct InstantKind;

/// The kind of a text that is parsed as `T`. The first field is an example for messages.
pub(crate) struct Parsed<T>(&'static str, PhantomData<fn() -> T>);

/// The kind of a value that has its own two functions, for reading and for writing.
pub(crate) struct Custom<T>(
    pub(crate) fn(&Spot<'_>, &mut Reading<'_>) -> Option<T>,
    pub(crate) fn(&T, Form) -> Value,
);

/// Returns the kind of a text that is parsed as `T`. `example` appears in messages.
pub(crate) const fn parsed<T>(example: &'static str) -> Parsed<T> {
    Parsed(example, PhantomData)
}

/// Returns `value` as a JSON string.
pub(crate) fn as_text<T: Display>(value: &T, _form: Form) -> Value {
    value.to_string().into()
}

/// Returns `path` as a JSON string.
#[expect(clippy::ptr_arg, reason = "the caller passes a field of the type PathBuf")]
pub(crate) fn as_path(path: &PathBuf, _form: Form) -> Value {
    path.to_string_lossy().into()
}

/// Returns `duration` as a JSON string.
pub(crate) fn as_duration(duration: &Duration, _form: Form) -> Value {
    format_duration(*duration).into()
}

/// Returns `set` as a JSON list of strings.
pub(crate) fn as_list<T: Display>(set: &BTreeSet<T>, _form: Form) -> Value {
    set.iter().map(ToString::to_string).collect()
}

impl<K: KeyKind> KeyKind for Maybe<K> {
    type Value = Option<K::Value>;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<Self::Value> {
        self.0.read(spot, reading).map(Some)
    }

    fn write(&self, value: &Self::Value, form: Form) -> Value {
        value.as_ref().map_or(Value::Null, |value| self.0.write(value, form))
    }
}

impl KeyKind for FlagKind {
    type Value = bool;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<bool> {
        spot.flag(reading.problems)
    }

    fn write(&self, value: &bool, _form: Form) -> Value {
        (*value).into()
    }
}

impl<N: TryFrom<i128> + PartialOrd + Display + Copy + Into<Value>> KeyKind for IntegerKind<N> {
    type Value = N;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<N> {
        spot.integer(&self.0, reading.problems)
    }

    fn write(&self, value: &N, _form: Form) -> Value {
        (*value).into()
    }
}

impl<T: Copy + PartialEq> KeyKind for WordKind<T> {
    type Value = T;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<T> {
        spot.choice(self.0, reading.problems)
    }

    fn write(&self, value: &T, _form: Form) -> Value {
        self.0.iter().find(|(_, one)| one == value).map_or(Value::Null, |(word, _)| (*word).into())
    }
}

impl KeyKind for InstantKind {
    type Value = UnixMillis;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<UnixMillis> {
        reading.clock.instant(spot, reading.problems)
    }

    fn write(&self, value: &UnixMillis, form: Form) -> Value {
        as_text(value, form)
    }
}

impl KeyKind for DurationBounds {
    type Value = Duration;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<Duration> {
        spot.duration(self, reading.problems)
    }

    fn write(&self, value: &Duration, form: Form) -> Value {
        as_duration(value, form)
    }
}

impl<T: FromStr<Err: Display> + Display> KeyKind for Parsed<T> {
    type Value = T;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<T> {
        spot.parsed(self.0, reading.problems)
    }

    fn write(&self, value: &T, form: Form) -> Value {
        as_text(value, form)
    }
}

impl<T> KeyKind for Custom<T> {
    type Value = T;

    fn read(&self, spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<T> {
        (self.0)(spot, reading)
    }

    fn write(&self, value: &T, form: Form) -> Value {
        (self.1)(value, form)
    }
}
