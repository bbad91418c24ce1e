//! The check of each new connection to Redis: its `INFO` must describe a server that schedd can
//! use.

use super::address::{Address, Eviction};

/// The facts about a server that schedd can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The kind and version of the server, such as `redis 7.0.15` or `valkey 8.0.1`.
    pub server: String,
    /// One sentence for each server setting that may lose data later, such as a disabled
    /// append-only file.
    pub warnings: Vec<String>,
    /// The maxmemory-policy of the server, if that policy evicts keys and [`Eviction::Allowed`]
    /// accepts such a server. None if the policy evicts no keys.
    pub evicts_by: Option<String>,
    /// The process and the replication id of the server, as `RUN_ID/REPLID`. The text changes when
    /// the server restarts, fails over or is replaced. Empty if the server does not report both.
    pub identity: String,
}

/// Checks a server by its `INFO` text, and by its setting `appendfsync` if known. The error names
/// the setting found and the setting wanted.
pub(crate) fn judge(
    info: &str,
    appendfsync: Option<&str>,
    address: &Address,
) -> Result<Findings, String> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    // Valkey 9 says server_mode.
    if field("redis_mode").or(field("server_mode")) == Some("sentinel") {
        return Err(
            "the server is a Sentinel, not a Redis server; give sentinels and master in [redis], or redis+sentinel://HOST:PORT/NAME"
                .to_owned(),
        );
    }
    if field("dragonfly_version").is_some() {
        return Err(
            "the server is Dragonfly, whose scripts do not keep to the rules of Redis; wanted Redis 7.0 or later, or Valkey 7.2 or later"
                .to_owned(),
        );
    }
    let (kind, version) = match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => ("valkey", version),
        (None, Some(version)) => ("redis", version),
        (None, None) => {
            return Err("the server reports no version in INFO; give the address of a Redis or Valkey server".to_owned());
        }
    };
    let wanted = if kind == "valkey" { (7, 2) } else { (7, 0) };
    if parse_version(version) < Some(wanted) {
        return Err(format!(
            "the server is {kind} {version}, wanted Redis 7.0 or later, or Valkey 7.2 or later"
        ));
    }
    match (field("cluster_enabled") == Some("1"), address.is_of_cluster()) {
        (true, false) => {
            return Err("the server is a node of a Redis Cluster; give cluster = [\"HOST:PORT\"] in [redis], or redis+cluster://HOST:PORT".to_owned());
        }
        (false, true) => {
            return Err("the server is no node of a Redis Cluster; give it as url in [redis], or as redis://HOST:PORT".to_owned());
        }
        _ => {}
    }
    if is_replica(info) {
        return Err("the server is a read-only replica; give the address of the primary".to_owned());
    }
    let evicts_by =
        field("maxmemory_policy").filter(|policy| *policy != "noeviction").map(str::to_owned);
    if let Some(policy) = &evicts_by
        && address.eviction() == Eviction::Refused
    {
        return Err(format!(
            "the maxmemory-policy is {policy}, which deletes jobs when memory is short; set noeviction (CONFIG SET maxmemory-policy noeviction), or accept the loss with allow_eviction = true in [redis] of jobs.toml"
        ));
    }
    let mut warnings = Vec::new();
    if field("aof_enabled") == Some("0") {
        warnings.push(
            "the append-only file is off, so a crash of Redis loses all changes since the last snapshot; set appendonly yes".to_owned(),
        );
    }
    if appendfsync == Some("no") {
        warnings.push(
            "only the operating system syncs the append-only file (appendfsync no), so a power cut loses the changes of up to 30 s; set appendfsync everysec"
                .to_owned(),
        );
    }
    let identity = match (field("run_id"), field("master_replid")) {
        (Some(process), Some(lineage)) => format!("{process}/{lineage}"),
        _ => String::new(),
    };
    Ok(Findings { server: format!("{kind} {version}"), warnings, evicts_by, identity })
}

/// Returns true if the `INFO` text is that of a replica.
pub(crate) fn is_replica(info: &str) -> bool {
    let roles = info.lines().filter_map(|line| line.strip_prefix("role:"));
    roles.map(str::trim).any(|role| matches!(role, "slave" | "replica"))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\ncluster_enabled:0\r\n";

    fn judged(info: &str, appendfsync: Option<&str>) -> Result<Findings, String> {
        judge(info, appendfsync, &Address::parse("redis://h").unwrap())
    }

    #[test]
    fn a_server_that_evicts_is_used_only_where_that_is_allowed_and_the_refusal_says_how() {
        let evicting = GOOD.replace("noeviction", "allkeys-lru");
        let error = judged(&evicting, None).unwrap_err();
        assert!(
            error.contains("allkeys-lru") && error.contains("allow_eviction = true"),
            "{error}"
        );
        let allowing = Address::parse("redis://h").unwrap().with_eviction(Eviction::Allowed);
        let findings = judge(&evicting, None, &allowing).unwrap();
        assert_eq!(findings.evicts_by.as_deref(), Some("allkeys-lru"));
        assert_eq!(judge(GOOD, None, &allowing).unwrap().evicts_by, None);
    }

    #[test]
    fn a_server_as_it_should_be_has_no_warnings() {
        let findings = judged(GOOD, None).unwrap();
        assert_eq!((findings.server.as_str(), findings.warnings.len()), ("redis 7.0.15", 0));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_one_reason_each() {
        for (from, to, word) in [
            ("7.0.15", "6.2.1", "7.0 or later"),
            ("role:master", "role:slave", "replica"),
            ("cluster_enabled:0", "cluster_enabled:1", "Cluster"),
            ("noeviction", "allkeys-lru", "noeviction"),
            ("standalone", "sentinel", "Sentinel"),
            ("redis_mode:standalone", "server_mode:sentinel", "Sentinel"),
            ("redis_version", "x_version", "version"),
            ("redis_version", "dragonfly_version:1.2\r\nredis_version", "Dragonfly"),
        ] {
            let error = judged(&GOOD.replace(from, to), None).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_cluster_is_used_by_its_own_address_and_each_refusal_names_the_right_form() {
        let in_cluster = GOOD.replace("cluster_enabled:0", "cluster_enabled:1");
        let nodes = Address::parse("redis+cluster://h").unwrap();
        assert!(judge(&in_cluster, None, &nodes).is_ok());
        assert!(judge(GOOD, None, &nodes).unwrap_err().contains("redis://HOST:PORT"));
        assert!(judged(&in_cluster, None).unwrap_err().contains("redis+cluster://HOST:PORT"));
    }

    #[test]
    fn a_server_without_an_append_only_file_is_warned_of() {
        assert_eq!(
            judged(&GOOD.replace("aof_enabled:1", "aof_enabled:0"), None).unwrap().warnings.len(),
            1
        );
    }

    #[test]
    fn a_file_nobody_syncs_is_warned_of() {
        assert_eq!(judged(GOOD, Some("no")).unwrap().warnings.len(), 1);
        assert!(judged(GOOD, Some("everysec")).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_server_restarted_or_promoted_is_another_one() {
        let identity = |info: &str| judged(&format!("{GOOD}{info}"), None).unwrap().identity;
        let before = identity("run_id:a\r\nmaster_replid:x\r\n");
        assert_eq!(before, identity("run_id:a\r\nmaster_replid:x\r\n"));
        assert_ne!(before, identity("run_id:b\r\nmaster_replid:x\r\n"));
        assert_ne!(before, identity("run_id:a\r\nmaster_replid:y\r\n"));
        assert_eq!(identity(""), "", "a server without both ids has no identity");
    }

    #[test]
    fn valkey_is_known_by_its_own_version() {
        assert_eq!(
            judged(&format!("valkey_version:8.0.1\r\n{GOOD}"), None).unwrap().server,
            "valkey 8.0.1"
        );
        assert!(judged(&format!("valkey_version:7.1.0\r\n{GOOD}"), None).is_err());
    }
}
