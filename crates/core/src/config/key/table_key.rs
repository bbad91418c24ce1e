//! A key of a table, declared once: its name, and how its value is read and written.
//!
//! The keys of a job and of the tables inside it (`retry`, `limits`) are lists of such
//! declarations. Reading, merging with `[defaults]`, canonical JSON and `show --json` use these
//! lists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::json_sheet::{Form, Sheet};
use super::origin::Reading;
use crate::config::syntax::reader::{Spot, TableReader};

/// The condition under which canonical JSON and `show` contain a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPresence {
    /// Canonical JSON has the key only if its value differs from the default. `show` always has the
    /// key.
    Filled,
    /// Canonical JSON and `show` have the key only if its value differs from the default.
    Given,
    /// Canonical JSON and `show` always have the key.
    Always,
}

/// The declaration of a key in a table. The table is read into a value of type `S`.
pub(crate) struct TableKey<S: 'static> {
    /// The name of the key.
    pub(crate) name: &'static str,
    /// The condition under which the key is written.
    pub(crate) presence: KeyPresence,
    /// Reads the value of the key and stores it in a value of type `S`. Returns `None` if a fault
    /// was noted.
    pub(crate) read: fn(&Spot<'_>, &mut Reading<'_>, &mut S) -> Option<()>,
    /// Returns the value of the key, taken from a value of type `S`, as JSON. Null means that the
    /// key has no value.
    pub(crate) write: fn(&S, Form) -> Value,
    /// Returns true if the key has the same value in both arguments. Most keys have their default
    /// value, which then is not written as JSON to be compared.
    pub(crate) is_same: fn(&S, &S) -> bool,
}

/// Declares a key by its name, the field of `S` that holds its value, and the
/// [`KeyKind`](super::key_kind::KeyKind) of that field.
macro_rules! key {
    ($name:literal, $($field:ident).+, $kind:expr) => {
        $crate::config::key::table_key::TableKey::new(
            $name,
            |spot, reading, target| {
                target.$($field).+ = $crate::config::key::key_kind::KeyKind::read(&$kind, spot, reading)?;
                Some(())
            },
            |from, form| $crate::config::key::key_kind::KeyKind::write(&$kind, &from.$($field).+, form),
            |from, other| from.$($field).+ == other.$($field).+,
        )
    };
}
pub(crate) use key;

impl<S> TableKey<S> {
    /// Declares a key that [`key!`] cannot declare, because its value is merged with the value of
    /// `[defaults]` or can remove that value.
    pub(crate) const fn new(
        name: &'static str,
        read: fn(&Spot<'_>, &mut Reading<'_>, &mut S) -> Option<()>,
        write: fn(&S, Form) -> Value,
        is_same: fn(&S, &S) -> bool,
    ) -> Self {
        Self { name, presence: KeyPresence::Filled, read, write, is_same }
    }
}

/// Returns `key` with [`KeyPresence::Given`]: canonical JSON and `show` have the key only if its
/// value differs from the default.
#[expect(clippy::needless_pass_by_value, reason = "each declaration of a key is passed on whole")]
pub(crate) const fn given<S>(key: TableKey<S>) -> TableKey<S> {
    TableKey { presence: KeyPresence::Given, ..key }
}

/// Returns `key` with [`KeyPresence::Always`]: canonical JSON and `show` always have the key.
#[expect(clippy::needless_pass_by_value, reason = "each declaration of a key is passed on whole")]
pub(crate) const fn always<S>(key: TableKey<S>) -> TableKey<S> {
    TableKey { presence: KeyPresence::Always, ..key }
}

/// Returns the names of `keys`.
pub(crate) fn names<S>(keys: &[TableKey<S>]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// The keys of a table that were read, divided into good and faulty keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeysRead {
    /// The keys whose values were read.
    pub(crate) good: BTreeSet<&'static str>,
    /// The keys whose values have a fault, which was noted.
    pub(crate) faulty: BTreeSet<&'static str>,
}

/// Reads the keys of `table` that `keys` declares, and sets their values in `target`. A key with a
/// fault leaves `target` unchanged.
pub(crate) fn read_keys<S>(
    keys: &[TableKey<S>],
    table: &TableReader<'_>,
    reading: &mut Reading<'_>,
    target: &mut S,
) -> KeysRead {
    let mut outcome = KeysRead::default();
    for key in keys {
        let Some(spot) = table.get(key.name) else { continue };
        let is_read = (key.read)(&spot, reading, target).is_some();
        if is_read { &mut outcome.good } else { &mut outcome.faulty }.insert(key.name);
    }
    outcome
}

/// Writes the values of `from` for `keys` into `out`. `plain` has the default values. `form` and
/// the [`KeyPresence`] of a key decide if its value is written when it equals the default.
pub(crate) fn write_keys<S>(
    keys: &[TableKey<S>],
    from: &S,
    plain: &S,
    form: Form,
    out: &mut Sheet,
) {
    for key in keys {
        let is_always = match key.presence {
            KeyPresence::Always => true,
            KeyPresence::Filled => form == Form::Shown,
            KeyPresence::Given => false,
        };
        if !is_always && (key.is_same)(from, plain) {
            continue;
        }
        let value = (key.write)(from, form);
        // Different values may have the same JSON.
        if is_always || value != (key.write)(plain, form) {
            out.put(key.name, value);
        }
    }
}
