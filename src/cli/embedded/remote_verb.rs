//! A verb that `schedctl --api` sends to a schedd: its words, the form of its output, and the content
//! of the files that it names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cli::local_zone::local_zone;
use crate::cli::render::Console;

/// The first line of the request: a verb and its surroundings. The standard input of the verb
/// follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of the sender's terminal")]
pub(crate) struct RemoteVerb {
    /// The words of the command line, without `schedctl` and the flags of the API.
    pub(crate) words: Vec<String>,
    pub(crate) is_terminal: bool,
    pub(crate) is_error_terminal: bool,
    pub(crate) has_colour: bool,
    pub(crate) is_brief: bool,
    /// The name of the sender's time zone.
    pub(crate) zone: String,
    /// The content of each jobs file that the verb reads, by its path in the words, and of each
    /// iCalendar file that the jobs file names.
    pub(crate) files: BTreeMap<String, String>,
}

impl RemoteVerb {
    /// Returns the verb with these words, for output to `console` in the zone of this host.
    pub(crate) fn on(console: &Console, words: Vec<String>) -> Self {
        Self {
            words,
            is_terminal: console.is_terminal(),
            is_error_terminal: console.is_error_terminal(),
            has_colour: console.has_colour(),
            is_brief: console.is_brief(),
            zone: local_zone().name().to_string(),
            files: BTreeMap::new(),
        }
    }
}
