//! The source of a list of jobs: the jobs file of a node, or a file that `schedctl apply` read.
//!
//! Invariant: the source of an applied file never has the name of a node. So the jobs of nodes and
//! of applied files are never confused.

use std::fmt;
use std::str::FromStr;

use super::names::{IdError, NodeName};

/// The prefix of the source name of an applied file. The name given to the file follows.
const APPLIED: &str = "apply:";

/// The name of a source: the name of a node, or `apply:NAME` for an applied file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(String);

impl SourceName {
    /// Returns the source name `apply:NAME` of a file that `schedctl apply` read. Fails unless
    /// `name` has the form of a job name.
    pub fn applied(name: &str) -> Result<Self, IdError> {
        format!("{APPLIED}{name}").parse()
    }

    /// Returns the name of the source as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the source is an applied file, which no node reads again.
    pub fn is_applied(&self) -> bool {
        self.0.starts_with(APPLIED)
    }

    /// Describes the source for a message, such as `the jobs file of node n1`.
    pub fn words(&self) -> String {
        match self.0.strip_prefix(APPLIED) {
            Some(name) => format!("the file applied as {name}"),
            None => format!("the jobs file of node {}", self.0),
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SourceName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.strip_prefix(APPLIED).unwrap_or(text).parse::<NodeName>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(IdError::Name { found, .. }) => Err(IdError::Name { kind: "source", found }),
            Err(error) => Err(error),
        }
    }
}

impl From<&NodeName> for SourceName {
    fn from(node: &NodeName) -> Self {
        Self(node.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_applied_file_has_a_name_no_node_can_have() {
        let applied = SourceName::applied("crm").unwrap();
        assert_eq!((applied.as_str(), applied.is_applied()), ("apply:crm", true));
        assert_eq!(applied.as_str().parse::<SourceName>(), Ok(applied.clone()));
        assert!(applied.as_str().parse::<NodeName>().is_err());
        assert_eq!(applied.words(), "the file applied as crm");
        let node = SourceName::from(&"apply".parse::<NodeName>().unwrap());
        assert_eq!(
            (node.words().as_str(), node.is_applied()),
            ("the jobs file of node apply", false)
        );
        for bad in ["", "apply:", "apply:A", "apply:apply:a", "apply: a", "a:b"] {
            assert!(bad.parse::<SourceName>().is_err(), "{bad}");
        }
        assert!(
            SourceName::applied("Crm").unwrap_err().to_string().contains("source name \"Crm\"")
        );
    }
}
