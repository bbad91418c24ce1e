//! F7: a power cut, as far as it can be simulated: Redis ends, and its last written bytes are lost.
//!
//! Invariant: the excuse is read from the lost bytes. It names the runs and jobs in them, and no
//! others.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;

use crate::evidence::{Delay, Excuse, Harm, Hit};
use crate::faults::Fault;
use crate::stage::Stage;

/// F7.
pub(crate) struct Cut {
    bytes: usize,
    forgot: BTreeSet<String>,
}

impl Cut {
    pub(crate) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { bytes: rng.usize(1..=4_096), forgot: BTreeSet::new() })
    }
}

impl Fault for Cut {
    fn row(&self) -> &'static str {
        "F7"
    }
    fn what(&self) -> String {
        format!(
            "Redis ended, the last {} bytes of its append-only file cut off, started again",
            self.bytes
        )
    }
    fn lasts(&self) -> Duration {
        // The loss shows within a lease.
        Duration::from_secs(1)
    }
    fn harm(&self) -> Harm {
        Harm { hit: Hit::Everyone, delay: Delay::Throughout, may_repeat: false, may_overlap: false }
    }
    fn excuse(&self) -> Option<Excuse> {
        Some(Excuse::Forgot(self.forgot.clone()))
    }
    fn inflict(&mut self, stage: &Stage) {
        let mut redis = stage.redis();
        let (_, dir): (String, String) =
            redis::cmd("CONFIG").arg("GET").arg("dir").query(&mut redis.connection()).unwrap();
        let dir = PathBuf::from(dir);
        // A killed Redis could lose more than the file shows, because it answers before it writes
        // while the disk is slow.
        // It is therefore asked to write everything it has answered and to end; that command gets
        // no answer.
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut redis.connection());
        redis.kill9();
        let of_increment =
            |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(".incr.aof"));
        let mut files: Vec<PathBuf> = fs::read_dir(dir.join("appendonlydir"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(of_increment)
            .collect();
        files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        let file = files.pop().unwrap();
        let before = fs::read(&file).unwrap();
        let kept = before.len().saturating_sub(self.bytes);
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(kept as u64).unwrap();
        // `aof-load-truncated` is on by default, so Redis loads the part that is whole.
        redis.restart();
        drop(redis);
        self.forgot = names(&String::from_utf8_lossy(&before[whole(&before[..kept])..]));
    }
    fn heal(&mut self, stage: &Stage) {
        // Redis 7.0 leaves the beginning of a truncated transaction in the file, and executes it at
        // its next start but one.
        // An operator has to rewrite the file, so this fault does too.
        let mut connection = stage.redis().connection();
        redis::cmd("BGREWRITEAOF").query::<redis::Value>(&mut connection).unwrap();
        let _ = stage.wait(Duration::from_secs(10), || {
            let reported: String =
                redis::cmd("INFO").arg("persistence").query(&mut connection).unwrap();
            reported.contains("aof_rewrite_in_progress:0")
                && reported.contains("aof_rewrite_scheduled:0")
        });
    }
}

/// Returns how much of a truncated file Redis loads.
/// That is up to the end of the last whole transaction, or of the last whole command outside a
/// transaction.
fn whole(file: &[u8]) -> usize {
    const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    let mut end =
        file.windows(EXEC.len()).rposition(|bytes| bytes == EXEC).map_or(0, |at| at + EXEC.len());
    while let Some(length) =
        command(&file[end..]).filter(|length| file[end..end + length] != *MULTI)
    {
        end += length;
    }
    end
}

/// Returns the length of the command at the start of `bytes`, if it is whole.
fn command(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize, kind: u8| -> Option<(usize, usize)> {
        let rest = bytes.get(from..)?;
        let end = rest.windows(2).position(|end| end == b"\r\n")?;
        let number = std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()?;
        (rest[0] == kind).then_some((number, from + end + 2))
    };
    let (words, mut at) = line(0, b'*')?;
    for _ in 0..words {
        let (length, from) = line(at, b'$')?;
        at = from + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// Returns all words that may be a run's id or a job's name.
fn names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // The instance of a job on a node has a slash in its name; other names end there.
    for others in [".-_@~/", ".-_@~"] {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
        for word in text.split(|letter| !is_of_word(letter)) {
            names.insert(word.to_owned());
            if let Some((job, _)) = word.split_once('@') {
                names.insert(job.to_owned());
            }
        }
    }
    names
}
