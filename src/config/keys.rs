//! The keys that each table knows, and the keys that a later version will know.
//!
//! A key that the design names but this version does not support gets a message of its own.
//! "Unknown" would make people look for a typo.

/// The sections of a file.
pub(super) const SECTIONS: &[&str] =
    &["redis", "daemon", "history", "output", "defaults", "queues", "groups", "calendars", "jobs"];
/// The sections of later versions.
pub(super) const LATER_SECTIONS: &[&str] = &["limits"];
/// `[redis]`
pub(super) const REDIS: &[&str] = &["url", "url_file", "allow_eviction"];
/// `[daemon]`
pub(super) const DAEMON: &[&str] =
    &["tick", "lease", "shutdown_grace", "queues", "labels", "max_load", "min_free_memory", "max_running", "users"];
/// `[history]`
pub(super) const HISTORY: &[&str] = &["keep_per_job", "keep", "max_age"];
/// `[output]`
pub(super) const OUTPUT: &[&str] = &["head", "tail", "keep_bytes_per_job", "keep_bytes", "max_age"];
/// `[queues.X]`
pub(super) const QUEUE: &[&str] = &["concurrency", "limit", "rate", "burst", "weight", "strict", "paused"];
/// The keys of queues in later versions.
pub(super) const LATER_QUEUE: &[&str] = &["limits", "priority", "per_key"];
/// `[groups.X]`
pub(super) const GROUP: &[&str] = &["mode", "order", "gap", "turn_timeout"];

/// The keys that give a job its schedule.
pub(super) const SCHEDULE: &[&str] = &["cron", "every", "delay", "at", "calendar", "rrule", "schedules"];
/// The keys of a table in `schedules`.
pub(super) const ONE_OF_SEVERAL: &[&str] = &["cron", "every", "at", "calendar", "rrule", "dtstart"];
/// The keys that modify the schedule of a single job.
pub(super) const SHAPE: &[&str] = &["anchor", "dtstart", "start", "end", "max_runs"];
/// The keys of a job's action.
pub(super) const ACTION: &[&str] = &["command", "shell", "http"];
/// The keys of a job's rules, which are also the keys of `[defaults]`.
pub(super) const POLICY: &[&str] = &[
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
/// The keys of jobs in later versions.
pub(super) const LATER_JOB: &[&str] = &["limit", "rate", "weight"];

/// `[calendars.X]`
pub(super) const CALENDAR: &[&str] = &["dates", "file", "tz"];

/// `http = { ... }`
pub(super) const HTTP: &[&str] = &["method", "url", "headers", "body", "expect", "redirects"];
/// `retry = { ... }`
pub(super) const RETRY: &[&str] = &["limit", "delay", "backoff", "max_delay", "jitter", "on", "never_on"];
/// The keys that only an added job has.
pub(super) const ADDED: &[&str] = &["unique", "unique_for"];
/// `unique = { ... }`
pub(super) const UNIQUE: &[&str] = &["key", "for", "mode", "max_wait"];
/// The keys of `done_check = { ... }`, beside its action.
pub(super) const DONE_CHECK: &[&str] = &["on", "timeout"];
/// `limits = { ... }`
pub(super) const LIMITS: &[&str] = &["memory", "cpu", "pids", "files", "nice"];
/// `per_key = { ... }`
pub(super) const PER_KEY: &[&str] = &["limit", "rate", "burst"];
/// `dst = { ... }`
pub(super) const DST: &[&str] = &["gap", "fold"];
/// `overlap = { ... }`
pub(super) const OVERLAP: &[&str] = &["mode", "max"];
/// `catch_up = { ... }`
pub(super) const CATCH_UP: &[&str] = &["mode", "max_age", "max_count", "spread"];

/// Keys that people write in the wrong place, and the right form.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[("spread", "catch_up = { spread = \"10m\" }")];
