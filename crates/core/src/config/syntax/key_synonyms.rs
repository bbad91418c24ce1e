//! Names that other schedulers give to the keys of schedd: cron, systemd, Kubernetes, Dkron,
//! Celery and similar programs. A user of such a program gets the right key, although the spelling
//! of the two names differs.

/// The words of other programs for keys of schedd, in lower case without `_`, `-` and `.`. A word
/// for several keys means the first of them that the table knows.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["command"], &["cmd", "exec", "execstart", "program", "argv", "args", "run", "task"]),
    (&["shell"], &["script", "line", "sh", "bash", "commandline"]),
    (&["http"], &["url", "request", "uri", "endpoint"]),
    (&["url"], &["uri", "endpoint", "address", "host"]),
    (&["cron"], &["schedule", "crontab", "expression", "cronexpression", "spec", "minute", "hour"]),
    (&["every"], &["interval", "period", "repeat", "repeatevery", "onunitactivesec"]),
    (&["delay"], &["onunitinactivesec", "fixeddelay", "countdown"]),
    (&["after"], &["parents", "parent", "dependson", "depends", "dependencies", "upstream"]),
    (&["calendar"], &["oncalendar"]),
    (
        &["at"],
        &["eta", "runat", "when", "date", "datetime", "time", "onactivesec", "scheduledtime"],
    ),
    (&["rrule"], &["recurrence", "ical"]),
    (&["start"], &["startdate", "startsat", "notbefore", "starttime"]),
    (&["end"], &["enddate", "endsat", "until", "expires", "expiresat", "notafter", "endtime"]),
    (&["max_runs"], &["repeatcount", "maxexecutions", "occurrences", "times", "count"]),
    (&["tz"], &["timezone", "crontz", "zone", "timezoneid"]),
    (&["dst"], &["daylightsaving"]),
    (&["jitter"], &["randomizeddelaysec", "randomdelay", "randomizeddelay"]),
    (&["splay"], &["fixedrandomdelay"]),
    (&["exclude"], &["holidays", "except", "excludedates", "blackout", "skipdays"]),
    (&["only_on"], &["weekdays", "days", "dayofweek"]),
    (&["skip_if_late"], &["startingdeadlineseconds", "misfiregracetime", "startdeadline"]),
    (&["catch_up"], &["persistent", "coalesce", "misfire", "anacron", "catchup"]),
    (
        &["overlap"],
        &["concurrencypolicy", "maxinstances", "concurrency", "allowoverlap", "singleton"],
    ),
    (
        &["timeout"],
        &[
            "timelimit",
            "softtimelimit",
            "hardtimelimit",
            "activedeadlineseconds",
            "runtimemaxsec",
            "maxruntime",
            "maxduration",
            "deadline",
            "ttl",
        ],
    ),
    (
        &["kill_grace"],
        &["timeoutstopsec", "graceperiod", "terminationgraceperiodseconds", "stoptimeout"],
    ),
    (
        &["retry", "limit"],
        &["retries", "maxretries", "backofflimit", "attempts", "maxattempts", "restart"],
    ),
    (&["limit"], &["max", "maxrunning", "size"]),
    (&["retry", "delay"], &["retrydelay", "retryinterval", "wait", "restartsec", "retrybackoff"]),
    (&["backoff"], &["strategy", "policy"]),
    (&["cwd"], &["workingdir", "workingdirectory", "workdir", "dir", "directory", "chdir"]),
    (&["env"], &["environment", "envs", "envvars", "variables", "vars"]),
    (&["env_file"], &["environmentfile", "envfrom", "dotenv"]),
    (&["tags"], &["tag"]),
    (&["user"], &["runas", "username", "owner", "runasuser", "account", "uid"]),
    (&["limits"], &["memory", "cpu", "memorymax", "memorylimit", "cpuquota", "resources", "nice"]),
    (&["memory"], &["memorymax", "mem", "ram"]),
    (&["cpu"], &["cpuquota", "cpus"]),
    (&["pids"], &["tasksmax", "processes"]),
    (&["stdin"], &["input", "standardinput"]),
    (&["shell_program"], &["interpreter", "shellpath"]),
    (&["log_output"], &["log", "logs", "standardoutput", "logging"]),
    (&["requires"], &["nodeselector", "labels", "constraints", "affinity", "hosts", "node"]),
    (&["queue"], &["pool", "channel", "topic"]),
    (&["group"], &["category"]),
    (&["key"], &["mutex", "lock", "concurrencykey"]),
    (&["not_while"], &["conflicts", "excludes", "blocks"]),
    (&["delivery"], &["ackslate", "semantics", "guarantee"]),
    (&["done_check"], &["condition", "check", "healthcheck"]),
    (&["on_failure"], &["mailto", "onerror", "onfail", "alert", "notify", "emailonfailure"]),
    (&["on_success"], &["oncomplete", "onsuccessful"]),
    (&["on_late"], &["onmissed", "sla", "onsla"]),
    (&["ping_url"], &["healthchecks", "heartbeat", "heartbeaturl", "ping", "monitor"]),
    (&["webhook_secret"], &["secret", "signingsecret"]),
];

/// Returns the key of `known` that another program calls `found`.
pub(crate) fn key_meant<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let word: String =
        found.chars().filter(|c| !"_-.".contains(*c)).collect::<String>().to_ascii_lowercase();
    let keys = SYNONYMS.iter().filter(|(_, words)| words.contains(&word.as_str()));
    let known = |key: &&str| known.iter().copied().find(|known| known == key);
    keys.flat_map(|(keys, _)| *keys).find_map(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_program_means_a_key_that_the_table_knows() {
        let job = ["command", "cron", "tz", "retry", "cwd", "timeout"];
        for (found, meant) in [
            ("cmd", "command"),
            ("ExecStart", "command"),
            ("schedule", "cron"),
            ("timezone", "tz"),
            ("CRON_TZ", "tz"),
            ("retries", "retry"),
            ("backoffLimit", "retry"),
            ("working_dir", "cwd"),
            ("WorkingDirectory", "cwd"),
            ("activeDeadlineSeconds", "timeout"),
        ] {
            assert_eq!(key_meant(found, &job), Some(meant), "{found}");
        }
        assert_eq!(key_meant("retries", &["limit", "delay"]), Some("limit"));
        assert_eq!(key_meant("mailto", &job), None);
    }

    #[test]
    fn no_word_stands_for_two_keys_that_one_table_knows() {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (keys, words) in SYNONYMS {
            pairs.extend(words.iter().map(|word| (*word, keys[0])));
        }
        let of_job = |key: &str| !["memory", "cpu", "pids", "url", "backoff"].contains(&key);
        for (at, (word, key)) in pairs.iter().enumerate().filter(|(_, (_, key))| of_job(key)) {
            let other = pairs[at + 1..].iter().find(|(next, key)| next == word && of_job(key));
            assert_eq!(other, None, "{word} already means {key}");
        }
    }
}
