//! The parser of a configuration text: the tree of its values, the checked reading of a value, and
//! the problems found.

pub(crate) mod compile_references;
pub(crate) mod config_error;
pub(crate) mod instant_text;
pub(crate) mod key_synonyms;
pub(crate) mod known_keys;
pub(crate) mod problem;
pub(crate) mod reader;
pub(crate) mod redaction;
pub(crate) mod text_node;
pub(crate) mod typos;
