//! Reads the lines that `job.bash` wrote as attempts. An unreadable line is an error of the test,
//! and is reported as such.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::evidence::{Attempt, Micros, Reach, RunName, SECOND, now};
use crate::world::jobs::VERSION;

/// Returns the attempts in `text`, in the order they began. Fails with the first unreadable line.
pub(crate) fn read(text: &str) -> Result<Vec<Attempt>, String> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut last_of: HashMap<(String, u64), usize> = HashMap::new();
    for line in text.lines() {
        let reporter =
            Reporter::read(line).ok_or_else(|| format!("unreadable line in effects: {line:?}"))?;
        let key = (reporter.run.id.clone(), reporter.fence);
        if reporter.word == "B" {
            last_of.insert(key, attempts.len());
            attempts.push(Attempt {
                run: reporter.run,
                number: reporter.attempt,
                fence: reporter.fence,
                node: reporter.node,
                pid: reporter.pid,
                began: reporter.at,
                last_sign: reporter.at,
                ended: None,
                reach: Reach::Process,
                version: reporter.version,
            });
            continue;
        }
        // A process that a job left behind reports under the fence of its job.
        let at = *last_of.get(&key).ok_or_else(|| format!("no beginning before: {line:?}"))?;
        let attempt = &mut attempts[at];
        attempt.last_sign = attempt.last_sign.max(reporter.at);
        if reporter.word == "E" {
            attempt.ended = Some((reporter.at, reporter.code));
        }
    }
    attempts.sort_by_key(|attempt| attempt.began);
    Ok(attempts)
}

/// Returns the attempts reported so far, while jobs still write.
pub(crate) fn so_far(dir: &Path) -> Vec<Attempt> {
    let text = fs::read_to_string(dir.join("effects")).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    read(&text[..whole]).unwrap_or_default()
}

/// Returns the node and the run of each attempt that is at work now, by the end of the file alone.
pub(crate) fn at_work(dir: &Path) -> Vec<(String, String)> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(dir.join("effects")) {
        let length = file.metadata().map_or(0, |data| data.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)));
        let _ = file.read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut found: HashMap<(String, u64), Reporter> = HashMap::new();
    for reporter in text.lines().filter_map(Reporter::read) {
        found.insert((reporter.run.id.clone(), reporter.fence), reporter);
    }
    let since = now() - SECOND / 2;
    let is_at_work = |reporter: &Reporter| reporter.word != "E" && reporter.at > since;
    let at_work = found.into_values().filter(is_at_work);
    at_work.map(|reporter| (reporter.node, reporter.run.id)).collect()
}

struct Reporter {
    word: String,
    run: RunName,
    attempt: u32,
    fence: u64,
    node: String,
    pid: u32,
    at: Micros,
    code: i32,
    version: Option<u32>,
}

impl Reporter {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [word @ ("B" | "T" | "E"), run, attempt, fence, node, pid, wall, _boot, code, version] =
            words[..]
        else {
            return None;
        };
        Some(Self {
            word: word.to_owned(),
            run: RunName::parse(run)?,
            attempt: attempt.parse().ok()?,
            fence: fence.parse().ok()?,
            node: node.to_owned(),
            pid: pid.parse().ok()?,
            at: wall.parse().ok()?,
            code: if word == "E" { code.parse().ok()? } else { 0 },
            version: version.strip_prefix(VERSION).and_then(|version| version.parse().ok()),
        })
    }
}
