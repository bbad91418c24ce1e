//! The keys of the tables of a file, and the keys that only later versions support. The keys of a
//! job are in `job_keys`.
//!
//! A key of a later version gets its own message, because the message "unknown key" would make
//! users look for a typo.

/// The names of the sections of a file.
pub(crate) const SECTIONS: &[&str] = &[
    "redis",
    "daemon",
    "api",
    "metrics",
    "history",
    "output",
    "defaults",
    "queues",
    "groups",
    "calendars",
    "jobs",
];
/// The names of sections that only later versions support.
pub(crate) const LATER_SECTIONS: &[&str] = &["limits"];
/// The keys of `[redis]`.
pub(crate) const REDIS: &[&str] = &[
    "url",
    "url_file",
    "sentinels",
    "master",
    "sentinel_user",
    "sentinel_password",
    "cluster",
    "url_auth",
    "ca_file",
    "cert_file",
    "key_file",
    "durability",
    "replicas",
    "shards",
    "allow_eviction",
];
/// The keys of `[daemon]`.
pub(crate) const DAEMON: &[&str] = &[
    "tick",
    "lease",
    "shutdown_grace",
    "queues",
    "labels",
    "max_load",
    "min_free_memory",
    "max_running",
    "users",
];
/// The keys of `[api]`.
pub(crate) const API: &[&str] = &[
    "listen",
    "tokens_file",
    "base_path",
    "trusted_proxies",
    "tls_cert",
    "tls_key",
    "define",
    "hosts",
];
/// The keys of `[metrics]`.
pub(crate) const METRICS: &[&str] = &["jobs"];
/// The keys of `[history]`.
pub(crate) const HISTORY: &[&str] = &["keep_per_job", "keep", "max_age"];
/// The keys of `[output]`.
pub(crate) const OUTPUT: &[&str] = &["head", "tail", "keep_bytes_per_job", "keep_bytes", "max_age"];
/// The keys of `[queues.X]`.
pub(crate) const QUEUE: &[&str] = &[
    "concurrency",
    "limit",
    "rate",
    "burst",
    "weight",
    "strict",
    "warn_depth",
    "warn_oldest",
    "on_backlog",
    "paused",
    "spread",
];
/// The keys of queues that only later versions support.
pub(crate) const LATER_QUEUE: &[&str] = &["limits", "priority", "per_key"];
/// The keys of `[groups.X]`.
pub(crate) const GROUP: &[&str] = &["mode", "order", "gap", "turn_timeout"];

/// The keys of jobs that only later versions support.
pub(crate) const LATER_JOB: &[&str] = &["limit", "rate", "weight"];

/// The keys of `[calendars.X]`.
pub(crate) const CALENDAR: &[&str] = &["dates", "file", "tz"];

/// The keys that users often write in the wrong place, each with the right form.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[("spread", "catch_up = { spread = \"10m\" }")];
