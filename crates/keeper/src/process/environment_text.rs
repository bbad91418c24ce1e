//! The environment with which a process is started.
//!
//! Invariant: the debug output of an environment, in a log or a panic, shows names only, because
//! any value may be a secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The whole environment of a process, as names and values. No other variable is inherited.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_printed() {
        let variables = Variables(BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]));
        assert_eq!(format!("{variables:?}"), "{\"TOKEN\"}");
        assert_eq!(serde_json::to_string(&variables).unwrap(), "{\"TOKEN\":\"hunter2\"}");
    }
}
