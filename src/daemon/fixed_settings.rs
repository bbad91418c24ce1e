//! The settings that a process takes from its file only at its start, compared with the present
//! file.

use std::collections::BTreeSet;

use crate::config::{Config, DaemonConfig};
use crate::domain::name::byte_size::format_size;
use crate::domain::time::duration::format_duration;

/// Returns, as text, the settings of `file` that differ from `running`, the settings of this
/// process. Returns `None` if no setting differs.
pub(super) fn differing(running: &Config, file: &Config) -> Option<String> {
    let mut told = Vec::new();
    let mut tell = |key: &str, here: String, there: String| {
        if here != there {
            told.push(format!("{key} is {here} now and {there} in the file"));
        }
    };
    let durations =
        |daemon: &DaemonConfig| [("tick", daemon.tick), ("lease", daemon.lease), ("shutdown_grace", daemon.shutdown_grace)];
    for ((key, here), (_, there)) in durations(&running.daemon).into_iter().zip(durations(&file.daemon)) {
        tell(&format!("[daemon] {key}"), format_duration(here), format_duration(there));
    }
    tell("[daemon] users", users(running.daemon.users.as_ref()), users(file.daemon.users.as_ref()));
    let size = |bytes: usize| format_size(u64::try_from(bytes).unwrap_or(u64::MAX));
    tell("[output] head", size(running.output.head), size(file.output.head));
    tell("[output] tail", size(running.output.tail), size(file.output.tail));
    // The values are left out, because they may contain a password.
    if running.redis != file.redis {
        told.push("[redis] in the file differs from the setting in use".to_owned());
    }
    (!told.is_empty()).then(|| told.join("; "))
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
    use crate::config::compile_text;
    use crate::domain::time::zone::Zone;

    fn told(running: &str, file: &str) -> Option<String> {
        let read = |text: &str| compile_text(text, "jobs.toml", &Zone::utc()).unwrap();
        differing(&read(running), &read(file))
    }

    #[test]
    fn only_what_differs_is_named_with_both_values_but_for_redis() {
        let five = "[daemon]\nlease = \"5s\"\n";
        assert_eq!(told(five, five), None);
        assert_eq!(told(five, "[daemon]\nlease = \"7s\"\n").unwrap(), "[daemon] lease is 5s now and 7s in the file");
        assert_eq!(told("", "[daemon]\nusers = [\"a\", \"b\"]\n").unwrap(), "[daemon] users is unset now and [a, b] in the file");
        assert_eq!(told("", "[output]\nhead = \"4KiB\"\n").unwrap(), "[output] head is 16KiB now and 4KiB in the file");
        let redis = told("", "[redis]\nurl = \"redis://:secret@h/\"\n").unwrap();
        assert_eq!(redis, "[redis] in the file differs from the setting in use");
        assert_eq!(told("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n"), None);
    }
}
