//! The line format of the journal file: a checksum, a space, and one fact as JSON.
//!
//! Invariant: a damaged line is never read as a fact, because its checksum does not match.

use serde::{Deserialize, Serialize};

/// The end of a run that this node executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedRun {
    #[serde(rename = "r")]
    pub(crate) run: String,
    #[serde(rename = "q")]
    pub(crate) queue: String,
    #[serde(rename = "s")]
    pub(crate) state: String,
    /// The reason of the end, in the form that history shows. Empty if no reason is known.
    #[serde(rename = "w", default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The time at which the run ended, in Unix ms by Redis' clock.
    #[serde(rename = "t")]
    pub(crate) ended_at: i64,
    #[serde(rename = "f")]
    pub(crate) fence: u64,
    /// The attempt, exit code, status and similar facts, as fields of the run's record and their
    /// values.
    #[serde(rename = "x", default)]
    pub(crate) facts: Vec<(String, String)>,
}

/// The start mark of an at-most-once run: this node is about to start, or has started, the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimedRun {
    #[serde(rename = "r")]
    pub(crate) run: String,
    #[serde(rename = "q")]
    pub(crate) queue: String,
    #[serde(rename = "a")]
    pub(crate) attempt: u32,
    #[serde(rename = "f")]
    pub(crate) fence: u64,
    /// The time of the claim, in Unix ms by Redis' clock.
    #[serde(rename = "t")]
    pub(crate) at: i64,
}

/// A job added by `schedctl`, as this node last read the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApiJob {
    #[serde(rename = "n")]
    pub(crate) name: String,
    #[serde(rename = "h")]
    pub(crate) hash: String,
    /// The schedule as the operator wrote it, such as `every 10m`.
    #[serde(rename = "s")]
    pub(crate) schedule: String,
    #[serde(rename = "o")]
    pub(crate) is_once: bool,
}

/// A fact that the journal records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JournalLine {
    /// The data in Redis has this epoch from this line on.
    #[serde(rename = "epoch")]
    Epoch(String),
    /// The data in Redis was complete. The values are the highest fence, Redis' time in Unix ms,
    /// and the address of the server.
    #[serde(rename = "seen")]
    Seen(u64, i64, String),
    /// The data is on the Redis server with this identity. When this node first met the server, the
    /// server had all data that this node knew.
    #[serde(rename = "server")]
    Server(String),
    /// A run ended on this node.
    #[serde(rename = "end")]
    Ended(EndedRun),
    /// An at-most-once run is about to start on this node.
    #[serde(rename = "claim")]
    Claimed(ClaimedRun),
    /// The at-most-once run with this id was not started, although its start mark was written.
    #[serde(rename = "unclaim")]
    Unclaimed(String),
    /// A job added by `schedctl` exists.
    #[serde(rename = "job")]
    Job(ApiJob),
    /// A job added by `schedctl` ended or was removed.
    #[serde(rename = "over")]
    JobOver(String),
}

impl JournalLine {
    /// Appends this fact to `into` as a line of the file, including the line end.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        // A fact can always be written as JSON. An empty text would be read as a damaged line.
        let json = serde_json::to_string(self).unwrap_or_default();
        into.extend_from_slice(checksum(&json).as_bytes());
        into.push(b' ');
        into.extend_from_slice(json.as_bytes());
        into.push(b'\n');
    }

    /// Returns the fact in a line, or `None` if the line is damaged.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (sum, json) = line.split_once(' ')?;
        (sum == checksum(json)).then(|| serde_json::from_str(json).ok())?
    }
}

/// Returns the first 8 hexadecimal digits of the SHA-1 of `json`.
fn checksum(json: &str) -> String {
    let sum = sha1_smol::Sha1::from(json).digest().bytes();
    format!("{:08x}", u32::from_be_bytes([sum[0], sum[1], sum[2], sum[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> JournalLine {
        JournalLine::Ended(EndedRun {
            run: "backup@1790000000000".to_owned(),
            queue: "default".to_owned(),
            state: "succeeded".to_owned(),
            reason: String::new(),
            ended_at: 1_790_000_000_100,
            fence: 1_790_000_000_000_000,
            facts: vec![
                ("attempt".to_owned(), "1".to_owned()),
                ("exit_code".to_owned(), "0".to_owned()),
            ],
        })
    }

    #[test]
    fn a_line_reads_back_and_is_short() {
        let mut text = Vec::new();
        end().encode(&mut text);
        assert!(text.len() < 220, "{} bytes: {}", text.len(), String::from_utf8_lossy(&text));
        assert_eq!(JournalLine::decode(text.strip_suffix(b"\n").unwrap()), Some(end()));
    }

    #[test]
    fn a_line_cut_short_or_changed_anywhere_is_no_fact() {
        let mut text = Vec::new();
        end().encode(&mut text);
        text.pop();
        for at in 0..text.len() {
            assert_eq!(JournalLine::decode(&text[..at]), None, "cut at {at}");
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert_eq!(JournalLine::decode(&changed), None, "changed at {at}");
        }
        assert_eq!(JournalLine::decode(b"\xff\xfe"), None);
    }
}
