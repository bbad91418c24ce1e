//! The rights that schedd needs in Redis, as a line of an ACL.

use std::collections::BTreeSet;

use crate::server::scripts;

/// The rights of an ACL line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of `schedd` and of all verbs.
    All,
    /// Those of the verbs that only read.
    ReadOnly,
}

/// The commands that read keys and are sent outside scripts.
const READING: &[&str] = &[
    "dbsize",
    "exists",
    "get",
    "hexists",
    "hget",
    "hgetall",
    "hkeys",
    "hlen",
    "hmget",
    "hscan",
    "mget",
    "pttl",
    "scan",
    "type",
    "zcard",
    "zcount",
    "zlexcount",
    "zrange",
    "zscan",
    "zscore",
];
/// The commands that change keys and are sent outside scripts.
const WRITING: &[&str] =
    &["append", "hdel", "hset", "persist", "pexpire", "set", "zadd", "zrem", "zremrangebyrank"];
/// The commands of each connection, of scripts and of messages.
const OF_CONNECTIONS: &[&str] = &[
    "auth",
    "client|setname",
    "evalsha",
    "hello",
    "info",
    "ping",
    "script|load",
    "select",
    "ssubscribe",
    "time",
    "wait",
];
/// The first version of Redis and Valkey that knows `CLIENT SETINFO`, which is sent to all versions.
const KNOWS_SETINFO: (u32, u32) = (7, 2);

/// Returns the line of an ACL file for `user` of `namespaces`, which may be patterns, with the
/// placeholder `PASSWORD`.
/// A user who only reads has no command that writes, also within scripts. `server` is the kind and version of the server, such as `redis 7.0.15`: a server refuses a line
/// with a command that it does not know. `in_cluster` adds the commands that find a node.
pub fn acl_line(
    user: &str,
    namespaces: &[&str],
    rights: Rights,
    server: &str,
    in_cluster: bool,
) -> String {
    let mut commands: BTreeSet<String> =
        OF_CONNECTIONS.iter().chain(READING).map(|command| (*command).to_owned()).collect();
    if rights == Rights::All {
        commands.extend(WRITING.iter().map(|command| (*command).to_owned()));
    }
    for script in
        scripts::all().into_iter().filter(|script| rights == Rights::All || script.only_reads())
    {
        commands.extend(script.commands().into_iter().map(str::to_ascii_lowercase));
    }
    if rights == Rights::ReadOnly {
        // A script that only reads may share code with others, and so name a command that it never
        // reaches.
        commands.retain(|command| !WRITING.contains(&command.as_str()));
    }
    if version_of(server) >= Some(KNOWS_SETINFO) {
        commands.insert("client|setinfo".to_owned());
    }
    if in_cluster {
        commands.extend(["asking", "cluster|nodes"].map(str::to_owned));
    }
    let allowed: Vec<String> = commands.iter().map(|command| format!("+{command}")).collect();
    let of_all = |sign: char| {
        let patterns = namespaces.iter().map(|namespace| format!(" {sign}{{{namespace}}}:*"));
        patterns.collect::<String>()
    };
    format!(
        "user {user} on >PASSWORD resetkeys{} resetchannels{} -@all {}",
        of_all('~'),
        of_all('&'),
        allowed.join(" ")
    )
}

fn version_of(server: &str) -> Option<(u32, u32)> {
    let mut parts = server.split_once(' ')?.1.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_user_the_keys_and_each_command_once() {
        let line = acl_line("jobs", &["prod"], Rights::All, "redis 7.0.15", false);
        assert!(
            line.starts_with("user jobs on >PASSWORD resetkeys ~{prod}:* resetchannels &{prod}:* -@all +append +auth "),
            "{line}"
        );
        let words: Vec<&str> = line.split(' ').collect();
        let once: BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(words.len(), once.len(), "{line}");
        for command in ["+zadd", "+bitfield", "+spublish", "+zpopmin"] {
            assert!(once.contains(command), "{command}: {line}");
        }
    }

    #[test]
    fn a_line_for_shards_has_the_keys_and_channels_of_each_pattern() {
        let line = acl_line("jobs", &["prod", "prod.*"], Rights::All, "redis 7.0.15", false);
        let rights = "resetkeys ~{prod}:* ~{prod.*}:* resetchannels &{prod}:* &{prod.*}:* -@all";
        assert!(line.contains(rights), "{line}");
    }

    #[test]
    fn who_only_reads_may_change_nothing() {
        let line = acl_line("jobs", &["prod"], Rights::ReadOnly, "redis 7.0.15", false);
        assert!(line.contains("+hgetall"), "{line}");
        for command in ["+set", "+zadd", "+del", "+hset", "+spublish", "+rename"] {
            assert!(!line.split(' ').any(|word| word == command), "{command}: {line}");
        }
    }

    #[test]
    fn only_servers_that_know_a_command_get_it() {
        for (server, knows) in
            [("redis 7.0.15", false), ("redis 7.2.0", true), ("valkey 8.0.1", true)]
        {
            let line = acl_line("jobs", &["prod"], Rights::All, server, false);
            assert_eq!(line.contains("+client|setinfo"), knows, "{server}");
        }
        assert!(
            acl_line("u", &["n"], Rights::All, "redis 7.0.15", true).contains("+cluster|nodes")
        );
    }
}
