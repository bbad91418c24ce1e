//! The declaration of a key of a table: the kind of its value, and how the value is read and
//! written.

pub(crate) mod file_host;
pub(crate) mod json_sheet;
pub(crate) mod key_kind;
pub(crate) mod origin;
pub(crate) mod rate_keys;
pub(crate) mod table_key;
