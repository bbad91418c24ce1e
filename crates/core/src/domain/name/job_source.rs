//! The source of a list of jobs: the jobs file of a node, a file that `schedctl apply` read, or the
//! instances on a node of the jobs with `on = "each-node"`.
//!
//! Invariant: only the source of a node's jobs file has the name of the node. So jobs of different
//! sources are never confused.

use std::fmt;
use std::str::FromStr;

use schedd_schedule::names::{IdError, NodeName};

/// The prefix of the source name of an applied file. The name given to the file follows.
const APPLIED: &str = "apply:";

/// The prefix of the source name of the instances on a node. The name of the node follows.
const INSTANCES: &str = "each-node:";

/// The name of a source: the name of a node, `apply:NAME` for an applied file, or `each-node:NODE`
/// for the instances on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(String);

impl SourceName {
    /// Returns the source name `apply:NAME` of a file that `schedctl apply` read. Fails unless
    /// `name` has the form of a job name.
    pub fn applied(name: &str) -> Result<Self, IdError> {
        format!("{APPLIED}{name}").parse()
    }

    /// Returns the source name of the instances on `node`.
    pub fn instances_on(node: &NodeName) -> Self {
        Self(format!("{INSTANCES}{node}"))
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
        if let Some(name) = self.0.strip_prefix(APPLIED) {
            return format!("the file applied as {name}");
        }
        match self.0.strip_prefix(INSTANCES) {
            Some(node) => format!("the jobs on each node, for node {node}"),
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
        let name = text.strip_prefix(APPLIED).or_else(|| text.strip_prefix(INSTANCES));
        match name.unwrap_or(text).parse::<NodeName>() {
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
        let instances = SourceName::instances_on(&"web1".parse().unwrap());
        assert_eq!(instances.as_str().parse(), Ok(instances.clone()));
        assert_eq!(instances.words(), "the jobs on each node, for node web1");
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
