//! The lines of the journal's file: a checksum, a space, one fact as JSON.
//!
//! Invariant: a line that was torn or changed is not taken for another fact: its checksum differs.

use serde::{Deserialize, Serialize};

/// How a run ended here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct EndedRun {
    #[serde(rename = "r")]
    pub(in crate::engine) run: String,
    #[serde(rename = "q")]
    pub(in crate::engine) queue: String,
    #[serde(rename = "s")]
    pub(in crate::engine) state: String,
    /// Why, as history says it.
    #[serde(rename = "w", default, skip_serializing_if = "String::is_empty")]
    pub(in crate::engine) reason: String,
    /// Redis' time, ms.
    #[serde(rename = "t")]
    pub(in crate::engine) ended_at: i64,
    #[serde(rename = "f")]
    pub(in crate::engine) fence: u64,
    /// Attempt, exit code, status and the like, as fields of the run's record.
    #[serde(rename = "x", default)]
    pub(in crate::engine) facts: Vec<(String, String)>,
}

/// An at-most-once run whose start mark this node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct ClaimedRun {
    #[serde(rename = "r")]
    pub(in crate::engine) run: String,
    #[serde(rename = "q")]
    pub(in crate::engine) queue: String,
    #[serde(rename = "a")]
    pub(in crate::engine) attempt: u32,
    #[serde(rename = "f")]
    pub(in crate::engine) fence: u64,
    /// Redis' time of the claim, ms.
    #[serde(rename = "t")]
    pub(in crate::engine) at: i64,
}

/// A job added by `schedctl`, as last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct ApiJob {
    #[serde(rename = "n")]
    pub(in crate::engine) name: String,
    #[serde(rename = "h")]
    pub(in crate::engine) hash: String,
    /// In words a person put there: `every 10m`.
    #[serde(rename = "s")]
    pub(in crate::engine) schedule: String,
    #[serde(rename = "o")]
    pub(in crate::engine) is_once: bool,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum Line {
    /// The data has this mark from now on.
    #[serde(rename = "epoch")]
    Epoch(String),
    /// The data was whole: the highest fence, Redis' time in ms, and where it is.
    #[serde(rename = "seen")]
    Seen(u64, i64, String),
    /// The data is known on this Redis server: what was seen before was no more than it had when it was met.
    #[serde(rename = "server")]
    Server(String),
    /// A run ended here.
    #[serde(rename = "end")]
    Ended(EndedRun),
    /// An at-most-once run is about to start here.
    #[serde(rename = "claim")]
    Claimed(ClaimedRun),
    /// It did not start after all.
    #[serde(rename = "unclaim")]
    Unclaimed(String),
    /// A job of the command line is there.
    #[serde(rename = "job")]
    Job(ApiJob),
    /// It is over, or was taken out.
    #[serde(rename = "over")]
    JobOver(String),
}

impl Line {
    /// The line as it stands in the file, with its end.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        // None of these can fail to be written as JSON; one that did would read back as torn.
        let json = serde_json::to_string(self).unwrap_or_default();
        into.extend_from_slice(checksum(&json).as_bytes());
        into.push(b' ');
        into.extend_from_slice(json.as_bytes());
        into.push(b'\n');
    }

    /// The fact a line holds; none if it is torn or changed.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (sum, json) = line.split_once(' ')?;
        (sum == checksum(json)).then(|| serde_json::from_str(json).ok())?
    }
}

fn checksum(json: &str) -> String {
    let mut sum = sha1_smol::Sha1::from(json).digest().to_string();
    sum.truncate(8);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> Line {
        Line::Ended(EndedRun {
            run: "backup@1790000000000".to_owned(),
            queue: "default".to_owned(),
            state: "succeeded".to_owned(),
            reason: String::new(),
            ended_at: 1_790_000_000_100,
            fence: 1_790_000_000_000_000,
            facts: vec![("attempt".to_owned(), "1".to_owned()), ("exit_code".to_owned(), "0".to_owned())],
        })
    }

    #[test]
    fn a_line_reads_back_and_is_short() {
        let mut text = Vec::new();
        end().encode(&mut text);
        assert!(text.len() < 220, "{} bytes: {}", text.len(), String::from_utf8_lossy(&text));
        assert_eq!(Line::decode(text.strip_suffix(b"\n").unwrap()), Some(end()));
    }

    #[test]
    fn a_line_cut_short_or_changed_anywhere_is_no_fact() {
        let mut text = Vec::new();
        end().encode(&mut text);
        text.pop();
        for at in 0..text.len() {
            assert_eq!(Line::decode(&text[..at]), None, "cut at {at}");
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert_eq!(Line::decode(&changed), None, "changed at {at}");
        }
        assert_eq!(Line::decode(b"\xff\xfe"), None);
    }
}
