//! The keys that each table of this version knows, and the keys of later versions.
//!
//! A key that the design names but this version does not support gets a message of its own. The
//! message "Unknown" would make people look for a typo.

/// The names of the sections of a file.
pub(crate) const SECTIONS: &[&str] =
    &["redis", "daemon", "history", "output", "defaults", "queues", "groups", "calendars", "jobs"];
/// The names of sections that only later versions support.
pub(crate) const LATER_SECTIONS: &[&str] = &["limits"];
/// The keys of `[redis]`.
pub(crate) const REDIS: &[&str] = &["url", "url_file", "allow_eviction"];
/// The keys of `[daemon]`.
pub(crate) const DAEMON: &[&str] =
    &["tick", "lease", "shutdown_grace", "queues", "labels", "max_load", "min_free_memory", "max_running", "users"];
/// The keys of `[history]`.
pub(crate) const HISTORY: &[&str] = &["keep_per_job", "keep", "max_age"];
/// The keys of `[output]`.
pub(crate) const OUTPUT: &[&str] = &["head", "tail", "keep_bytes_per_job", "keep_bytes", "max_age"];
/// The keys of `[queues.X]`.
pub(crate) const QUEUE: &[&str] = &["concurrency", "limit", "rate", "burst", "weight", "strict", "paused"];
/// The keys of queues that only later versions support.
pub(crate) const LATER_QUEUE: &[&str] = &["limits", "priority", "per_key"];
/// The keys of `[groups.X]`.
pub(crate) const GROUP: &[&str] = &["mode", "order", "gap", "turn_timeout"];

/// The keys that give a job its schedule.
pub(crate) const SCHEDULE: &[&str] = &["cron", "every", "delay", "at", "calendar", "rrule", "schedules"];
/// The keys of each table in `schedules`.
pub(crate) const ONE_OF_SEVERAL: &[&str] = &["cron", "every", "at", "calendar", "rrule", "dtstart"];
/// The keys that modify the schedule of a single job.
pub(crate) const SHAPE: &[&str] = &["anchor", "dtstart", "start", "end", "max_runs"];
/// The keys of a job's action.
pub(crate) const ACTION: &[&str] = &["command", "shell", "http"];
/// The keys of a job's rules, which are also the keys of `[defaults]`.
pub(crate) const POLICY: &[&str] = &[
    "tz",
    "dst",
    "env",
    "env_file",
    "log_output",
    "cwd",
    "user",
    "limits",
    "umask",
    "stdin",
    "shell_program",
    "queue",
    "priority",
    "requires",
    "key",
    "per_key",
    "not_while",
    "group",
    "timeout",
    "kill_grace",
    "retry",
    "overlap",
    "catch_up",
    "late_after",
    "delivery",
    "done_check",
    "jitter",
    "splay",
    "exclude",
    "only_on",
    "skip_if_late",
    "on_failure",
    "on_success",
    "on_late",
    "on_recovered",
    "must_start_within",
    "must_finish_within",
    "ping_url",
    "webhook_secret",
];
/// The keys of jobs that only later versions support.
pub(crate) const LATER_JOB: &[&str] = &["limit", "rate", "weight"];

/// The keys of `[calendars.X]`.
pub(crate) const CALENDAR: &[&str] = &["dates", "file", "tz"];

/// The keys of `http = { ... }`.
pub(crate) const HTTP: &[&str] = &["method", "url", "headers", "body", "expect", "redirects"];
/// The keys of `retry = { ... }`.
pub(crate) const RETRY: &[&str] = &["limit", "delay", "backoff", "max_delay", "jitter", "on", "never_on"];
/// The keys that only a job added by `schedctl add` may have.
pub(crate) const ADDED: &[&str] = &["unique", "unique_for"];
/// The keys of `unique = { ... }`.
pub(crate) const UNIQUE: &[&str] = &["key", "for", "mode", "max_wait"];
/// The keys of `done_check = { ... }`, beside the keys of its action.
pub(crate) const DONE_CHECK: &[&str] = &["on", "timeout"];
/// The keys of `limits = { ... }`.
pub(crate) const LIMITS: &[&str] = &["memory", "cpu", "pids", "files", "nice"];
/// The keys of `per_key = { ... }`.
pub(crate) const PER_KEY: &[&str] = &["limit", "rate", "burst"];
/// The keys of `dst = { ... }`.
pub(crate) const DST: &[&str] = &["gap", "fold"];
/// The keys of `overlap = { ... }`.
pub(crate) const OVERLAP: &[&str] = &["mode", "max"];
/// The keys of `catch_up = { ... }`.
pub(crate) const CATCH_UP: &[&str] = &["mode", "max_age", "max_count", "spread"];

/// The keys that people write in the wrong place, each with the right form.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[("spread", "catch_up = { spread = \"10m\" }")];
