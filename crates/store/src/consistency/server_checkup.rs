//! Checks of the Redis server: of the settings and states that the server reports, and of its
//! response time. Each check has a verdict.
//!
//! Invariant: a fact that this Redis user may not read is reported as not known. Such a fact
//! changes no other verdict.

use std::time::{Duration, Instant};

use redis::Value;

use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use crate::{LaneAsk, Store};
use schedd_core::domain::queue::lane::Lane;

/// The response time of a script above which the check warns, because each claim of a run takes at
/// least as long.
const SLOW_SCRIPT: Duration = Duration::from_millis(20);

/// The verdict of a check of the Redis server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckLevel {
    /// The server is as it should be.
    Ok,
    /// The server is in order, and the text contains a fact for the operator.
    Note,
    /// The server works, but may fail in the future.
    Warn,
    /// The server has a fault.
    Fail,
}

impl CheckLevel {
    /// Returns the verdict as a word: `ok`, `note`, `warn` or `fail`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of one check of the Redis server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCheck {
    /// The name of the check.
    pub name: String,
    /// The verdict of the check.
    pub level: CheckLevel,
    /// The result of the check in words. If the verdict is a warning or a fault, the text also says
    /// how to mend the problem.
    pub text: String,
}

impl ServerCheck {
    /// Creates the result of a check from its name, verdict and text.
    pub fn new(name: impl Into<String>, level: CheckLevel, text: impl Into<String>) -> Self {
        Self { name: name.into(), level, text: text.into() }
    }
}

impl Store {
    /// Checks the Redis server and returns the results of all checks.
    pub async fn check_server(&self) -> Result<Vec<ServerCheck>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INFO");
        pipeline.cmd("CONFIG").arg("GET").arg("appendfsync");
        pipeline.cmd("CONFIG").arg("GET").arg("min-replicas-to-write");
        pipeline.cmd("SLOWLOG").arg("GET").arg(10);
        let answers = self.link.ask(&mut pipeline).await?;
        let answer = |at: usize| answers.get(at).and_then(|answer| answer.as_ref().ok());
        let setting = |at: usize| match answer(at) {
            Some(Value::Array(pair)) => pair.get(1).and_then(text_of),
            _ => None,
        };
        let info = answer(0)
            .and_then(info_text)
            .ok_or_else(|| StoreError::corrupt("reply to the command INFO", "found no text"))?;
        let (fsync, min_replicas) = (setting(1), setting(2));
        let replicas = self.link.replicas();
        let mut checks = judge_info(&info, fsync.as_deref(), min_replicas.as_deref(), replicas);
        checks.push(slow_log(answer(3)));
        checks.push(self.time_script().await?);
        Ok(checks)
    }

    /// Measures how long a script that does nothing takes. The result is the best of three calls,
    /// because one slow answer proves nothing.
    async fn time_script(&self) -> Result<ServerCheck, StoreError> {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let sent = Instant::now();
            self.list_due(&[LaneAsk::new(Lane::default_lane(), 0)]).await?;
            best = best.min(sent.elapsed());
        }
        let millis = best.as_secs_f64() * 1_000.0;
        Ok(if best > SLOW_SCRIPT {
            let text = format!(
                "an empty script takes {millis:.1} ms, so each claim of runs takes at least as long; check the network and the load of Redis"
            );
            ServerCheck::new("script time", CheckLevel::Warn, text)
        } else {
            ServerCheck::new(
                "script time",
                CheckLevel::Ok,
                format!("an empty script takes {millis:.1} ms"),
            )
        })
    }
}

fn info_text(value: &Value) -> Option<String> {
    match value {
        Value::VerbatimString { text, .. } => Some(text.clone()),
        other => text_of(other),
    }
}

/// Checks the slow log of Redis, which contains slow commands of all clients. `answer` is the reply
/// to SLOWLOG GET, None if this Redis user may not send that command.
fn slow_log(answer: Option<&Value>) -> ServerCheck {
    let Some(Value::Array(entries)) = answer else {
        return ServerCheck::new(
            "slow log",
            CheckLevel::Ok,
            "the slow log cannot be read, because the ACL forbids this Redis user the command SLOWLOG",
        );
    };
    let took = |entry: &Value| match entry {
        Value::Array(parts) => number_of(parts.get(2)?),
        _ => None,
    };
    let slowest = entries.iter().filter_map(took).max().unwrap_or(0);
    // `slowest` is in microseconds. Redis serves no other client during a command.
    if slowest > 100_000 {
        let text = format!(
            "a command blocked Redis for {} ms; find the command with SLOWLOG GET",
            slowest / 1_000
        );
        return ServerCheck::new("slow log", CheckLevel::Warn, text);
    }
    let text = if entries.is_empty() {
        "the slow log is empty".to_owned()
    } else {
        format!("the slowest command in the slow log took {} ms", slowest / 1_000)
    };
    ServerCheck::new("slow log", CheckLevel::Ok, text)
}

/// Checks `info`, the text of INFO, and the settings `appendfsync` and `min-replicas-to-write`. A
/// setting is None if this Redis user may not read it. `durability` is the number of replicas that
/// acknowledged changes wait for.
#[expect(clippy::too_many_lines, reason = "a list of checks in their order")]
fn judge_info(
    info: &str,
    appendfsync: Option<&str>,
    min_replicas: Option<&str>,
    durability: u8,
) -> Vec<ServerCheck> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    let mut checks = Vec::new();
    let mut say = |name: &str, level: CheckLevel, text: String| {
        checks.push(ServerCheck::new(name, level, text));
    };
    let (kind, version) = match field("valkey_version") {
        Some(version) => ("valkey", version),
        None => ("redis", field("redis_version").unwrap_or("?")),
    };
    say("version", CheckLevel::Ok, format!("{kind} {version}"));

    match field("maxmemory_policy") {
        Some("noeviction") => say("eviction", CheckLevel::Ok, "noeviction".to_owned()),
        None => say(
            "eviction",
            CheckLevel::Warn,
            "INFO does not report the maxmemory-policy; wanted noeviction".to_owned(),
        ),
        // Nodes refuse a server that evicts keys, unless the jobs file allows eviction.
        Some(policy) => say(
            "eviction",
            CheckLevel::Warn,
            format!(
                "the maxmemory-policy {policy} deletes jobs when memory is short; set noeviction (CONFIG SET maxmemory-policy noeviction)"
            ),
        ),
    }

    let fsync = match appendfsync {
        Some(word) => format!(", appendfsync {word}"),
        None => ", the value of appendfsync is not known".to_owned(),
    };
    match (field("aof_enabled"), appendfsync) {
        (Some("0"), _) => say(
            "persistence",
            CheckLevel::Warn,
            "the append-only file is off, so a crash of Redis loses all changes since the last snapshot; set appendonly yes".to_owned(),
        ),
        (_, Some("no")) => say(
            "persistence",
            CheckLevel::Warn,
            "only the operating system syncs the append-only file (appendfsync no), so a power cut loses the changes of up to 30 s; set appendfsync everysec".to_owned(),
        ),
        _ => say("persistence", CheckLevel::Ok, format!("the append-only file is on{fsync}")),
    }
    let failed: Vec<&str> = [
        ("aof_last_write_status", "write the append-only file"),
        ("aof_last_bgrewrite_status", "rewrite the append-only file"),
        ("rdb_last_bgsave_status", "save the last snapshot"),
    ]
    .into_iter()
    .filter(|(name, _)| field(name).is_some_and(|status| status != "ok"))
    .map(|(_, what)| what)
    .collect();
    if failed.is_empty() {
        say("last write", CheckLevel::Ok, "Redis could write its data to disk".to_owned());
    } else {
        say(
            "last write",
            CheckLevel::Fail,
            format!(
                "Redis could not {write_to_disk}; check the log of Redis and the free space of its disk",
                write_to_disk = failed.join(" or ")
            ),
        );
    }
    if field("loading") == Some("1") {
        say(
            "loading",
            CheckLevel::Warn,
            "Redis refuses commands until it has loaded its data".to_owned(),
        );
    }

    let used = number("used_memory").unwrap_or(0);
    let shown =
        |bytes: u64| format!("{}.{} MiB", bytes / (1 << 20), bytes % (1 << 20) * 10 / (1 << 20));
    match number("maxmemory").filter(|most| *most > 0) {
        None => {
            say(
                "memory",
                CheckLevel::Ok,
                format!("{memory} used, without a limit (maxmemory 0)", memory = shown(used)),
            );
        }
        Some(most) => {
            let percent = used.saturating_mul(100) / most;
            let memory_used = format!("{} of {} used ({percent} %)", shown(used), shown(most));
            if percent >= 100 {
                say(
                    "memory",
                    CheckLevel::Fail,
                    format!("{memory_used}, so Redis accepts no new jobs or runs; raise maxmemory"),
                );
            } else if percent >= 80 {
                say(
                    "memory",
                    CheckLevel::Warn,
                    format!(
                        "{memory_used}; at the limit Redis accepts no new jobs or runs; raise maxmemory"
                    ),
                );
            } else {
                say("memory", CheckLevel::Ok, memory_used);
            }
        }
    }

    checks.push(judge_replicas(number("connected_slaves").unwrap_or(0), min_replicas, durability));
    checks
}

/// Checks the number of connected replicas. `durability` is the number that acknowledged changes wait
/// for.
fn judge_replicas(connected: u64, min_replicas: Option<&str>, durability: u8) -> ServerCheck {
    let check = |level, text| ServerCheck::new("replicas", level, text);
    let risk =
        "a failover loses the writes that no replica has received, so some runs may run again";
    let connected_words = match connected {
        1 => "1 replica is connected".to_owned(),
        count => format!("{count} replicas are connected"),
    };
    let wanted = min_replicas.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    match (connected, durability) {
        (found, 1..) if found < u64::from(durability) => check(
            CheckLevel::Fail,
            format!(
                "{connected_words}, wanted {durability} for durability = \"replicated\"; add ends with 75, and runs with at-most-once delivery do not start"
            ),
        ),
        (_, 1..) => check(
            CheckLevel::Ok,
            format!(
                "{connected_words}; added jobs and starts of at-most-once runs are on {durability} of them, by durability = \"replicated\""
            ),
        ),
        (0, _) => check(
            CheckLevel::Ok,
            "no replica is connected, so a loss of this server loses all jobs and runs".to_owned(),
        ),
        _ if wanted == 0 => check(
            CheckLevel::Warn,
            format!(
                "{connected_words}, and Redis accepts writes without a replica: {risk}; set durability = \"replicated\" in [redis], or min-replicas-to-write"
            ),
        ),
        _ => check(
            CheckLevel::Ok,
            format!(
                "{connected_words}, and Redis refuses writes while fewer than {wanted} are connected; {risk}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\naof_last_write_status:ok\r\nused_memory:1048576\r\nmaxmemory:0\r\nconnected_slaves:0\r\nrdb_last_bgsave_status:ok\r\n";

    fn level(info: &str, fsync: Option<&str>, name: &str) -> CheckLevel {
        judge_info(info, fsync, None, 0).into_iter().find(|check| check.name == name).unwrap().level
    }

    #[test]
    fn a_server_as_it_should_be_is_all_ok() {
        assert!(
            judge_info(GOOD, Some("everysec"), None, 0)
                .iter()
                .all(|check| check.level == CheckLevel::Ok)
        );
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_own_line_and_level() {
        for (from, to, name, wanted) in [
            ("noeviction", "allkeys-lru", "eviction", CheckLevel::Warn),
            ("aof_enabled:1", "aof_enabled:0", "persistence", CheckLevel::Warn),
            (
                "aof_last_write_status:ok",
                "aof_last_write_status:err",
                "last write",
                CheckLevel::Fail,
            ),
            (
                "rdb_last_bgsave_status:ok",
                "rdb_last_bgsave_status:err",
                "last write",
                CheckLevel::Fail,
            ),
            ("maxmemory:0", "maxmemory:1100000", "memory", CheckLevel::Warn),
            ("maxmemory:0", "maxmemory:1000000", "memory", CheckLevel::Fail),
            ("connected_slaves:0", "connected_slaves:2", "replicas", CheckLevel::Warn),
        ] {
            assert_eq!(level(&GOOD.replace(from, to), Some("everysec"), name), wanted, "{name}");
        }
        assert_eq!(level(GOOD, Some("no"), "persistence"), CheckLevel::Warn);
        let replicas = [0, 1, 2].map(|connected| judge_replicas(connected, None, 2).level);
        assert_eq!(replicas, [CheckLevel::Fail, CheckLevel::Fail, CheckLevel::Ok]);
    }
}
