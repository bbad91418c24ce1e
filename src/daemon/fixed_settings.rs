//! Compares the settings that a process reads only at its start with the present jobs file.

use std::collections::BTreeSet;

use schedd_core::config::{Config, DaemonConfig, RedisConfig};
use schedd_core::domain::name::byte_size::format_size;
use schedd_schedule::time::duration::format_duration;

/// Returns a text that names each such setting whose value in use (`running`) differs from the
/// value in the jobs file (`file`). Returns `None` if no such value differs.
pub(super) fn differing(running: &Config, file: &Config) -> Option<String> {
    let mut differences = Vec::new();
    let mut report = |key: &str, here: String, there: String| {
        if here != there {
            differences.push(format!("{key} is {here} now and {there} in the file"));
        }
    };
    let durations = |daemon: &DaemonConfig| {
        [("tick", daemon.tick), ("lease", daemon.lease), ("shutdown_grace", daemon.shutdown_grace)]
    };
    for ((key, here), (_, there)) in
        durations(&running.daemon).into_iter().zip(durations(&file.daemon))
    {
        report(&format!("[daemon] {key}"), format_duration(here), format_duration(there));
    }
    report(
        "[daemon] users",
        users(running.daemon.users.as_ref()),
        users(file.daemon.users.as_ref()),
    );
    let size = |bytes: usize| format_size(u64::try_from(bytes).unwrap_or(u64::MAX));
    report("[output] head", size(running.output.head), size(file.output.head));
    report("[output] tail", size(running.output.tail), size(file.output.tail));
    // The Redis settings are not printed, because they may contain a password.
    let but_shards = |config: &Config| RedisConfig { shards: None, ..config.redis.clone() };
    if but_shards(running) != but_shards(file) {
        differences.push("[redis] in the file differs from the setting in use".to_owned());
    }
    if running.api != file.api {
        differences.push("[api] in the file differs from the setting in use".to_owned());
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn users(users: Option<&BTreeSet<String>>) -> String {
    users.map_or_else(
        || "unset".to_owned(),
        |users| format!("[{}]", users.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_core::config::compile_text;
    use schedd_schedule::time::zone::Zone;

    fn differences(running: &str, file: &str) -> Option<String> {
        let read = |text: &str| compile_text(text, "jobs.toml", &Zone::utc()).unwrap();
        differing(&read(running), &read(file))
    }

    #[test]
    fn only_what_differs_is_named_with_both_values_but_for_redis() {
        let five = "[daemon]\nlease = \"5s\"\n";
        assert_eq!(differences(five, five), None);
        assert_eq!(
            differences(five, "[daemon]\nlease = \"7s\"\n").unwrap(),
            "[daemon] lease is 5s now and 7s in the file"
        );
        assert_eq!(
            differences("", "[daemon]\nusers = [\"a\", \"b\"]\n").unwrap(),
            "[daemon] users is unset now and [a, b] in the file"
        );
        assert_eq!(
            differences("", "[output]\nhead = \"4KiB\"\n").unwrap(),
            "[output] head is 16KiB now and 4KiB in the file"
        );
        let redis = differences("", "[redis]\nurl = \"redis://:secret@h/\"\n").unwrap();
        assert_eq!(redis, "[redis] in the file differs from the setting in use");
        assert_eq!(differences("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n"), None);
    }
}
