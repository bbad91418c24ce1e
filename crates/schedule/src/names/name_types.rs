//! Names of jobs, queues, groups and nodes.
//!
//! Invariant: a value of these types is always well formed. So a name from a user or from Redis can
//! go into a key, a log line or a path without another check.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::notice_kind::NoticeKind;

/// The error for a text that is not a valid name, lane or run id. The message shows the text and
/// the valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is not a valid name of a job, queue, group, node, label or source.
    #[error(
        "{kind} name {found:?} is not valid: wanted 1 to 63 of the characters a-z 0-9 . _ -, with a letter or digit first"
    )]
    Name {
        /// The kind of name that was wanted, such as `job` or `queue`.
        kind: &'static str,
        /// The text found, cut to a length that fits in a line.
        found: String,
    },
    /// The text is not a valid lane name.
    #[error(
        "lane {found:?} is not valid: wanted QUEUE or QUEUE!PRIORITY, with optional labels as in QUEUE+LABEL,LABEL"
    )]
    Lane {
        /// The text found, cut to a length that fits in a line.
        found: String,
    },
    /// The text is not a valid run id.
    #[error(
        "run id {found:?} is not valid: wanted JOB@DUE_MS, or JOB@DUE_MS~WORD for a run that is not regular"
    )]
    Run {
        /// The text found, cut to a length that fits in a line.
        found: String,
    },
}

impl IdError {
    /// Returns the error for a text that is not a valid lane.
    pub fn lane(found: &str) -> Self {
        Self::Lane { found: shortened(found) }
    }
}

/// The maximum length of a name of a job, queue, group or node, in bytes.
pub const MAX_NAME_LEN: usize = 63;

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let first_ok = bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest_ok = bytes
        .iter()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
    first_ok && rest_ok && bytes.len() <= MAX_NAME_LEN
}

pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(SHOWN).collect();
    cut.push('…');
    cut
}

/// The name of the queue of notices. No host can have this name.
const NOTICES: &str = "@@notices";

/// The name of the queue of jobs with an instance on each node. No host can have this name.
const EACH_NODE: &str = "@@each-node";

/// Returns true for a valid queue name: a plain name, the name of a host's queue, or a queue of
/// schedd itself.
fn is_queue_name(text: &str) -> bool {
    is_name(text.strip_prefix('@').unwrap_or(text)) || text == NOTICES || text == EACH_NODE
}

/// The text before the name of a handler in the label that stands for the handler.
const OF_HANDLER: &str = "handler:";

/// Returns true for a valid label: a plain name, or the name of a handler behind `handler:`.
fn is_label(text: &str) -> bool {
    is_name(text.strip_prefix(OF_HANDLER).unwrap_or(text))
}

/// Returns true for a valid name of a job: a plain name, the name of an instance on a node, or the
/// name of a hidden job whose runs are notices.
fn is_job_name(text: &str) -> bool {
    let is_of_user = |text: &str| match text.split_once('/') {
        Some((job, node)) => is_name(job) && is_name(node) && NoticeKind::parse(node).is_none(),
        None => is_name(text),
    };
    match text.rsplit_once('/') {
        Some((job, kind)) if NoticeKind::parse(kind).is_some() => is_of_user(job),
        _ => is_of_user(text),
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $is_name:ident) => {
        // Names are copied often, so copies share the text.
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if $is_name(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(IdError::Name { kind: $kind, found: shortened(text) })
                }
            }
        }
    };
}

name_type!(
    /// The name of a job: `[a-z0-9][a-z0-9._-]{0,62}`. The instance of a job on a node has the name
    /// of the node after its name: `clean/web1`. A hidden job, whose runs are notices, has the kind
    /// at the end: `backup/on_failure`.
    JobName,
    "job",
    is_job_name
);
name_type!(
    /// The name of a queue, in the form of a job name. A name with a leading `@` is the queue of a
    /// host, which only the nodes of this host serve.
    QueueName,
    "queue",
    is_queue_name
);
name_type!(
    /// The name of a group, in the form of a job name.
    GroupName,
    "group",
    is_name
);
name_type!(
    /// The name of a node, in the form of a job name. The jobs of the node's `jobs.toml` have this
    /// name as their source.
    NodeName,
    "node",
    is_name
);

name_type!(
    /// The name of a label: a property of a node that a job may require. It has the form of a job
    /// name. A label with `handler:` before its name stands for a handler, and only workers have it.
    Label,
    "label",
    is_label
);
name_type!(
    /// The name of a handler, in the form of a job name: the kind of work that a worker does.
    HandlerName,
    "handler",
    is_name
);

impl JobName {
    /// Returns the name of the hidden job whose runs are the notices of `kind` about the job
    /// `reported`.
    pub fn of_notice(reported: &Self, kind: NoticeKind) -> Self {
        Self(format!("{reported}/{kind}").into())
    }

    /// Returns the reported job and the kind of the notices, if this is the name of a hidden job.
    /// Returns `None` otherwise.
    pub fn notice_subject(&self) -> Option<(Self, NoticeKind)> {
        let (job, kind) = self.0.rsplit_once('/')?;
        Some((Self(job.into()), NoticeKind::parse(kind)?))
    }

    /// Returns the name of the instance of the job `job` on `node`. Returns `None` if `job` is no
    /// plain name, or the node has the name of a kind of notices.
    pub fn of_instance(job: &Self, node: &NodeName) -> Option<Self> {
        format!("{job}/{node}").parse().ok().filter(|name: &Self| name.instance().is_some())
    }

    /// Returns the job and the node, if this is the name of an instance. Returns `None` otherwise.
    pub fn instance(&self) -> Option<(Self, NodeName)> {
        let (job, node) = self.0.split_once('/')?;
        let is_instance = !node.contains('/') && NoticeKind::parse(node).is_none();
        is_instance.then(|| (Self(job.into()), NodeName(node.into())))
    }

    /// Returns the job as text for a message: `job clean`, or `job clean on node web1` for an
    /// instance.
    pub fn words(&self) -> String {
        self.instance().map_or_else(
            || format!("job {self}"),
            |(job, node)| format!("job {job} on node {node}"),
        )
    }

    /// Returns the name under which a user defined this job: for an instance, the name of its job.
    #[must_use]
    pub fn defined(&self) -> Self {
        self.instance().map_or_else(|| self.clone(), |(job, _)| job)
    }

    /// Returns the name if users may define a job with this name, else an error.
    pub fn for_people(self) -> Result<Self, IdError> {
        if self.0.contains('/') {
            Err(IdError::Name { kind: "job", found: shortened(&self.0) })
        } else {
            Ok(self)
        }
    }

    /// Returns true for the name of a hidden job, whose runs are notices.
    pub fn is_hidden(&self) -> bool {
        self.notice_subject().is_some()
    }
}

impl QueueName {
    /// Returns the name of the queue of notices, which every node serves.
    pub fn of_notices() -> Self {
        Self(NOTICES.into())
    }

    /// Returns the name of the queue of jobs with an instance on each node. Every node serves the
    /// queue. It has only runs that a job still owed when it got its instances.
    pub fn of_each_node() -> Self {
        Self(EACH_NODE.into())
    }

    /// Returns the name of the queue for jobs that name no queue: `default`.
    pub fn default_queue() -> Self {
        Self("default".into())
    }

    /// Returns the name of the queue of the host `host`.
    pub fn of_host(host: &str) -> Self {
        Self(format!("@{}", NodeName::from_host_name(host)).into())
    }

    /// Returns true for the queue of a host or of notices. Definitions and `[queues]` of jobs files
    /// must not name such a queue.
    pub fn is_of_host(&self) -> bool {
        self.0.starts_with('@')
    }
}

impl Label {
    /// Returns the label that each node has: the name of the node.
    pub fn of_node(node: &NodeName) -> Self {
        Self(node.0.clone())
    }

    /// Returns the label that stands for a handler. Only workers have it.
    pub fn of_handler(handler: &HandlerName) -> Self {
        Self(format!("{OF_HANDLER}{handler}").into())
    }

    /// Returns the handler for which this label stands. Returns `None` for a label of nodes.
    pub fn handler(&self) -> Option<HandlerName> {
        self.0.strip_prefix(OF_HANDLER).map(|name| HandlerName(name.into()))
    }

    /// Returns the label if users may give it to nodes and jobs, else an error.
    pub fn for_people(self) -> Result<Self, IdError> {
        match self.handler() {
            Some(_) => Err(IdError::Name { kind: "label", found: shortened(&self.0) }),
            None => Ok(self),
        }
    }
}

impl NodeName {
    /// Returns true for a name that no node can have: `each-node`, and the names of the kinds of
    /// notices. Such a name would be ambiguous in `on`, or in the name of an instance.
    pub fn is_reserved(&self) -> bool {
        self.as_str() == "each-node" || NoticeKind::parse(&self.0).is_some()
    }

    /// Returns the name, with `-1` behind a reserved name.
    #[must_use]
    pub fn unreserved(self) -> Self {
        if self.is_reserved() { Self(format!("{}-1", self.0).into()) } else { self }
    }

    /// Returns the valid node name nearest to the name of a host: in lower case, with `-` for other
    /// characters. Returns `node` if no character is left.
    pub fn from_host_name(host: &str) -> Self {
        let mapped: String = host
            .to_ascii_lowercase()
            .chars()
            .map(
                |c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' },
            )
            .take(MAX_NAME_LEN)
            .collect();
        let trimmed = mapped.trim_start_matches(['.', '_', '-']);
        if trimmed.is_empty() { Self("node".into()) } else { Self(trimmed.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_design_allows_and_nothing_else() {
        for good in ["a", "0", "backup", "a.b_c-d", &"x".repeat(63)] {
            assert_eq!(good.parse::<JobName>().unwrap().as_str(), good);
        }
        let bad = [
            "",
            " ",
            "A",
            "-rf",
            ".a",
            "a b",
            "a/b/c",
            "../../etc/x",
            "{x}",
            "a\n",
            "a\0",
            "é",
            "a\u{202e}b",
            "a@1",
            "a~b",
        ];
        for bad in bad.into_iter().chain([&*"x".repeat(64)]) {
            assert!(bad.parse::<JobName>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn the_queue_of_a_host_has_a_name_no_other_queue_has() {
        let queue = QueueName::of_host("Web-1.example");
        assert_eq!((queue.as_str(), queue.is_of_host()), ("@web-1.example", true));
        assert_eq!("@web-1.example".parse(), Ok(queue));
        assert!(
            !QueueName::default_queue().is_of_host()
                && "@".parse::<QueueName>().is_err()
                && "@a".parse::<JobName>().is_err()
        );
    }

    #[test]
    fn an_instance_has_the_names_of_its_job_and_its_node() {
        let (job, node) = ("clean".parse().unwrap(), "web1".parse().unwrap());
        let name = JobName::of_instance(&job, &node).unwrap();
        assert_eq!((name.as_str(), name.instance()), ("clean/web1", Some((job.clone(), node))));
        assert_eq!((name.defined(), name.is_hidden()), (job.clone(), false));
        let notices = JobName::of_notice(&name, NoticeKind::Failure);
        assert_eq!(notices.as_str().parse(), Ok(notices.clone()));
        assert_eq!((notices.notice_subject().unwrap().0, notices.instance()), (name.clone(), None));
        assert!(name.clone().for_people().is_err() && job.clone().for_people().is_ok());
        let reserved = "on_failure".parse().unwrap();
        assert_eq!(JobName::of_instance(&job, &reserved), None);
        for bad in ["a/b/c", "a/on_failure/on_failure", "a/", "/a", "a/on_failure/b"] {
            assert!(bad.parse::<JobName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn any_host_name_gives_a_valid_node_name() {
        assert_eq!(NodeName::from_host_name("Web-1.example.ORG").as_str(), "web-1.example.org");
        assert_eq!(NodeName::from_host_name("_h").as_str(), "h");
        assert_eq!(NodeName::from_host_name("").as_str(), "node");
    }
}
