//! The meaning of Redis' error replies: the kind of refusal and its most likely cause.
//!
//! Invariant: the meaning is derived from the reply and the command, without another command to the
//! server.

use redis::RedisError;

use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;

/// Adds the most likely cause to the error of a failed connection, such as TLS on only one side.
/// Returns every other error unchanged.
pub(crate) fn with_hint(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { address, why } if address.starts_with("rediss://") => {
            StoreError::Unavailable {
                why: format!(
                    "{why} (does the server use TLS, with a certificate that this host trusts?)"
                ),
                address,
            }
        }
        StoreError::Unavailable { address, why }
            if why.contains("reset") && address.starts_with("redis://") =>
        {
            StoreError::Unavailable {
                why: format!(
                    "{why} (does the server expect TLS? then use rediss://; or is maxclients reached?)"
                ),
                address,
            }
        }
        StoreError::Unavailable { address, why }
            if why.contains("reset") || why.eq_ignore_ascii_case("broken pipe") =>
        {
            StoreError::Unavailable { why: format!("{why} (is maxclients reached?)"), address }
        }
        other => other,
    }
}

/// Returns the error for a command on a key of the wrong type. The key and the wanted type are
/// taken from the command.
pub(crate) fn wrong_type_of(command: &redis::Cmd) -> StoreError {
    let word = |at: usize| match command.args_iter().nth(at) {
        Some(redis::Arg::Simple(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let wanted = match word(0).as_str() {
        name if name.starts_with('Z') => "zset",
        name if name.starts_with('H') => "hash",
        _ => "string",
    };
    StoreError::WrongType {
        key: word(1),
        found: "value of another type".to_owned(),
        wanted: wanted.to_owned(),
    }
}

/// Returns true if the error requires a new connection with a freshly read URL. A primary that
/// became a replica answers writes with READONLY, and a replica without a primary answers
/// MASTERDOWN. A node of a cluster answers MOVED for a slot that another node has. If Sentinels or a
/// cluster choose the server (`is_routed`), another server may serve while this server loads data.
pub(crate) fn wants_another_connection(error: &RedisError, is_routed: bool) -> bool {
    match error.code() {
        Some("READONLY" | "MASTERDOWN" | "NOAUTH" | "WRONGPASS" | "MOVED" | "CLUSTERDOWN") => true,
        Some("LOADING") => is_routed,
        _ => false,
    }
}

/// The words by which Valkey 9 says that the ACL stopped a script.
const ACL_IN_SCRIPT: &str = "ACL failure in script";

/// Returns the command or key that an ACL denied to a script; None for other errors. Redis 7 does
/// not name the denied command or key, so the text lists all candidates.
pub(crate) fn forbidden(error: &RedisError, invocation: &Invocation) -> Option<String> {
    let (detail, script) = (error.detail()?, invocation.script);
    let is_refused = error.code() == Some("NOPERM");
    if detail.contains("user executing the script can't run")
        || detail.contains(ACL_IN_SCRIPT) && detail.contains("to run the '")
    {
        return Some(format!(
            "a command of script {} (one of {})",
            script.name,
            script.commands().join(" ")
        ));
    }
    if detail.contains("user executing the script can't access")
        || (is_refused || detail.contains(ACL_IN_SCRIPT)) && detail.contains(" key")
    {
        return Some(format!(
            "a key of script {} (wanted access to {})",
            script.name,
            invocation.keys_wanted()
        ));
    }
    (is_refused && detail.contains("evalsha"))
        .then(|| format!("the command EVALSHA, which calls script {}", script.name))
}

/// Returns true if a script started and then met data it does not expect. A repeated call would
/// meet the same data.
pub(crate) fn is_raised_in_script(error: &RedisError) -> bool {
    let is_raised = |detail: &str| {
        detail.contains("user_script")
            && !detail.contains("user executing the script can't")
            && !detail.contains(ACL_IN_SCRIPT)
    };
    matches!(error.code(), Some("ERR" | "WRONGTYPE")) && error.detail().is_some_and(is_raised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::redis_keys::Keys;
    use crate::server::scripts;

    fn refusal(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
            .unwrap()
            .extract_error()
            .unwrap_err()
    }

    #[test]
    fn only_what_a_script_came_upon_itself_is_reported_as_its_error() {
        let met = [
            "ERR user_script:7: attempt to index a nil value script: 5f, on @user_script:7.",
            "WRONGTYPE Operation against a key script: 5f, on @user_script:7.",
        ];
        let refused = [
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            "READONLY You can't write against a read only replica. script: 5f, on @user_script:7.",
            "ERR max number of clients reached",
        ];
        assert!(met.iter().all(|line| is_raised_in_script(&refusal(line))));
        assert!(!refused.iter().any(|line| is_raised_in_script(&refusal(line))));
    }

    #[test]
    fn a_script_stopped_by_the_acl_is_reported_as_a_refusal() {
        let call = Invocation::new(&scripts::LIST_DUE, &Keys::new("w").unwrap());
        let denied = |line: &str| forbidden(&refusal(line), &call);
        let command = denied(
            "ERR The user executing the script can't run this command or subcommand script: 5f, on @user_script:7.",
        );
        assert!(command.unwrap().contains("ZCARD"));
        let of_valkey = "ERR ACL failure in script: User u has no permissions to run the 'zcard' command script: 5f, on @user_script:7.";
        assert!(denied(of_valkey).unwrap().contains("ZCARD"));
        assert!(!is_raised_in_script(&refusal(of_valkey)));
        for line in [
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 5f",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "NOPERM No permissions to access a key",
        ] {
            assert!(denied(line).unwrap().ends_with("(wanted access to ~{w}:*)"), "{line}");
        }
        assert!(
            denied("NOPERM User weak has no permissions to run the 'evalsha' command")
                .unwrap()
                .contains("EVALSHA")
        );
        assert_eq!(denied("ERR value is not an integer script: 5f, on @user_script:7."), None);
    }

    #[test]
    fn a_damaged_key_is_named_by_the_command_that_met_it() {
        let mut command = redis::cmd("ZRANGE");
        command.arg("{w}:leases").arg(0).arg(9);
        let StoreError::WrongType { key, wanted, .. } = wrong_type_of(&command) else {
            panic!("another error")
        };
        assert_eq!((&*key, &*wanted), ("{w}:leases", "zset"));
    }
}
