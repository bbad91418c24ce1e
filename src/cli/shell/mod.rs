//! Completion of words in a shell.

pub(crate) mod completion;
pub(crate) mod completions_verb;
