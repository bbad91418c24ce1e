//! The fields of one record in Redis: the answer of the command `HGETALL`.

use std::borrow::Cow;
use std::str::FromStr;

use redis::Value;

use super::reply::str_of;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The fields of a record, each with its value. A record has few fields, so a search is short.
#[derive(Debug, Default)]
pub(crate) struct RecordFields<'v>(Vec<(Cow<'v, str>, Cow<'v, str>)>);

impl<'v> RecordFields<'v> {
    /// Returns the fields in the answer of `HGETALL`. Returns `None` for another answer.
    pub(crate) fn of(answer: &'v Value) -> Option<Self> {
        let Value::Array(flat) = answer else { return None };
        let pair = |pair: &'v [Value]| Some((str_of(&pair[0])?, str_of(&pair[1])?));
        Some(Self(flat.chunks_exact(2).filter_map(pair).collect()))
    }

    /// Returns the value of `field`.
    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, value)| &**value)
    }

    /// Returns the value of `field`. Returns `None` if the value is empty.
    pub(crate) fn filled(&self, field: &str) -> Option<&str> {
        self.get(field).filter(|value| !value.is_empty())
    }

    /// Returns the value of `field` as a `T`. Returns `None` if the value is not a `T`.
    pub(crate) fn parsed<T: FromStr>(&self, field: &str) -> Option<T> {
        self.get(field)?.parse().ok()
    }

    /// Returns the value of `field` as a Unix time in ms.
    pub(crate) fn instant(&self, field: &str) -> Option<UnixMillis> {
        self.parsed(field).and_then(UnixMillis::new)
    }

    /// Returns all fields and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}
