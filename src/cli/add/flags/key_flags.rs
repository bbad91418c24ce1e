//! The flags of `add` that give a job its keys: the one declaration of each.
//!
//! A declaration has the name of the flag, the key of `[jobs.X]` that it sets, the kind of its value
//! and the word for this value in `--help`. The flag with no key says how `--at` is read.

use super::key_flag::KeyFlag;
use super::key_flag::ValueForm::{
    Codes, Command, Content, Count, Duration, Files, Fold, Headers, List, Notice, Processors,
    Switch, Text, Texts, Time, Times, UniqueKey, Variables, Whole,
};

macro_rules! flags {
    ($($heading:literal {
        $($(#[doc = $help:literal])+ $name:literal => $key:literal, $form:expr, $value_name:literal $(, with $other:literal)?;)+
    })+) => {
        &[$($(KeyFlag {
            name: $name,
            key: $key,
            form: $form,
            value_name: $value_name,
            requires: flags!(@other $($other)?),
            heading: $heading,
            help: concat!($($help),+),
        },)+)+]
    };
    (@other $other:literal) => { Some($other) };
    (@other) => { None };
}

/// The flags in the order of `--help`. The comments are the texts of `--help`.
pub(crate) const KEY_FLAGS: &[KeyFlag] = flags! {
    "" {
        /// Name of the job: a-z 0-9 . _ - [default: job- and ten random letters]
        "name" => "name", Text, "NAME";
    }
    "When" {
        /// Run once after this delay; 0s means at once
        "in" => "in", Duration, "DURATION";
        /// Run once at this time; may be given several times
        "at" => "at", Times, "TIME";
        /// Run when this cron expression matches (@every 90s and @daily too); may be given several
        /// times
        "cron" => "cron", Texts, "EXPR";
        /// Run repeatedly at this interval
        "every" => "every", Duration, "DURATION";
        /// Run repeatedly, this long after the end of the previous run
        "delay" => "delay", Duration, "DURATION";
        /// Run when this systemd OnCalendar expression matches, such as 'Mon..Fri 09:00'; may be
        /// given several times
        "calendar" => "calendar", Texts, "EXPR";
        /// Run by this iCalendar rule, such as 'FREQ=MONTHLY;BYDAY=-1FR'; may be given several
        /// times
        "rrule" => "rrule", Texts, "RULE", with "dtstart";
        /// Local start time of --rrule: 2026-01-05T09:00
        "dtstart" => "dtstart", Text, "LOCAL TIME", with "rrule";
        /// Time from which --every counts, itself an occurrence [default: when the job was first
        /// added]
        "anchor" => "anchor", Time, "TIME", with "every";
        /// No occurrences before this time
        "start" => "start", Time, "TIME";
        /// No occurrences after this time
        "end" => "end", Time, "TIME";
        /// Stop after N scheduled runs
        "max-runs" => "max_runs", Count, "N";
        /// Delay each run by a random time up to this, new for each run
        "jitter" => "jitter", Duration, "DURATION";
        /// Delay all runs by a fixed time up to this, derived from the job
        "splay" => "splay", Duration, "DURATION";
        /// Do not run on these days: 2026-12-24, 2026-12-24..2027-01-01, sat, sat..sun; may be
        /// given several times
        "exclude" => "exclude", List, "DAYS";
        /// Run only on these days
        "only-on" => "only_on", List, "DAYS";
        /// Skip a run that would start more than this after it should have started
        "skip-if-late" => "skip_if_late", Duration, "DURATION";
        /// Time zone of --cron, --calendar, --rrule and --at, such as Europe/Berlin [default: that
        /// of this host]
        "tz" => "tz", Text, "ZONE";
        /// Which of the two times to take if the clock shows a local --at twice [default: first]
        "fold" => "", Fold, "WHICH", with "at";
        /// Accept a past --at, which runs at once; of several past times only the newest runs
        "allow-past" => "", Switch, "", with "at";
        /// If the clock skips a time of --cron, --calendar or --rrule: run-after (once, right
        /// after) or skip [default: run-after, but skip if the minute or hour begins with *]
        "dst-gap" => "dst.gap", Text, "RULE";
        /// If the clock shows a time of --cron, --calendar or --rrule twice: first, last or both
        /// [default: first, but both if the minute or hour begins with *]
        "dst-fold" => "dst.fold", Text, "RULE";
    }
    "What" {
        /// Program and its arguments, run without a shell
        "command" => "command", Command, "COMMAND";
        /// Command line for /bin/sh -c
        "shell" => "shell", Text, "LINE";
        /// Send a request to this URL
        "http" => "http.url", Text, "URL";
        /// Method of the request [default: GET, with a body POST]
        "method" => "http.method", Text, "METHOD";
        /// Header field of the request, NAME:VALUE; may be given several times
        "header" => "http.headers", Headers, "NAME:VALUE";
        /// Body of the request, or @FILE for the content of a file
        "body" => "http.body", Content, "TEXT|@FILE";
        /// Status codes that count as success, such as 200,204 [default: any 2xx]
        "expect" => "http.expect", Codes, "CODES";
        /// Environment variable of the command, may contain ${credential:NAME}; may be given
        /// several times
        "env" => "env", Variables, "NAME=VALUE";
        /// File with environment variables, one NAME=VALUE a line, read at each attempt; a leading
        /// - makes it optional; may be given several times
        "env-file" => "env_file", Files, "FILE";
        /// Also write each line of output to the log of the node
        "log-output" => "log_output", Switch, "";
        /// Working directory of the command [default: the home of its user]
        "cwd" => "cwd", Text, "DIR";
        /// User, and optionally group, on the node's host to run the command as [default: the user
        /// of schedd]
        "user" => "user", Text, "USER[:GROUP]";
        /// Memory limit for all processes of a run together, such as 512M; above it they are killed
        "limit-memory" => "limits.memory", Text, "SIZE";
        /// CPU limit for all processes of a run together, in processors, such as 0.5
        "limit-cpu" => "limits.cpu", Processors, "N";
        /// Maximum number of processes and threads of a run
        "limit-pids" => "limits.pids", Whole, "N";
        /// Maximum number of open files of each process
        "limit-files" => "limits.files", Whole, "N";
        /// CPU niceness, 0 to 19: a higher number gives way to other processes
        "nice" => "limits.nice", Whole, "N";
        /// Permissions that new files do not get, octal [default: 0022]
        "umask" => "umask", Text, "MASK";
        /// Standard input of the command, or @FILE for the content of a file [default: nothing]
        "stdin-text" => "stdin", Content, "TEXT|@FILE";
        /// Shell that runs the line of --shell with -c [default: /bin/sh]
        "shell-program" => "shell_program", Text, "PROGRAM";
    }
    "Rules" {
        /// Queue of the job [default: default]
        "queue" => "queue", Text, "QUEUE";
        /// Priority among the runs of its queue, -10 to 10; higher runs first [default: 0]
        "priority" => "priority", Whole, "N";
        /// Labels that a node needs to run the job, such as gpu,eu
        "requires" => "requires", List, "LABELS";
        /// Group of the job: one run of the group runs at a time
        "group" => "group", Text, "GROUP";
        /// Concurrency key, such as customer-42: one run of all jobs with the same key runs at a
        /// time
        "key" => "key", Text, "KEY";
        /// Number of runs with the same --key at once [default: 1, or any number with
        /// --per-key-rate]
        "per-key" => "per_key.limit", Whole, "N";
        /// Start rate of runs with the same --key, such as 10/1m
        "per-key-rate" => "per_key.rate", Text, "RATE";
        /// Number of runs that may start at once under --per-key-rate [default: the number in the
        /// rate]
        "per-key-burst" => "per_key.burst", Whole, "N", with "per-key-rate";
        /// Jobs that must not run at the same time as this job
        "not-while" => "not_while", List, "JOBS";
        /// Maximum duration of one attempt [default: 1h]
        "timeout" => "timeout", Duration, "DURATION";
        /// Time between SIGTERM and SIGKILL [default: 5s]
        "kill-grace" => "kill_grace", Duration, "DURATION";
        /// Maximum number of retries after a failed attempt [default: 0]
        "retry" => "retry.limit", Whole, "N";
        /// Delay before the first retry [default: 10s]
        "retry-delay" => "retry.delay", Duration, "DURATION", with "retry";
        /// Growth of the retry delay: fixed, linear or exponential [default: exponential]
        "retry-backoff" => "retry.backoff", Text, "HOW", with "retry";
        /// Retry only on these exit codes, or status codes of --http, such as 75,124 (124 is a
        /// timeout)
        "retry-on" => "retry.on", Codes, "CODES", with "retry";
        /// Do not retry on these exit codes or status codes
        "retry-never-on" => "retry.never_on", Codes, "CODES", with "retry";
        /// If the previous run has not ended: skip, queue, replace or allow [default: skip]
        "overlap" => "overlap", Text, "HOW";
        /// Missed occurrences to run: skip (none), latest or all [default: latest]
        "catch-up" => "catch_up.mode", Text, "HOW";
        /// Skip occurrences older than this, whatever other rules say
        "max-age" => "catch_up.max_age", Duration, "DURATION";
        /// Spread missed occurrences over this time instead of starting them at once
        "spread" => "catch_up.spread", Duration, "DURATION";
        /// If a host dies: at-least-once or at-most-once [default: at-least-once]
        "delivery" => "delivery", Text, "HOW";
        /// Before an attempt, run this line with /bin/sh to ask if the work is done: exit code 0
        /// yes, 1 no, else ask again later
        "done-check" => "done_check.shell", Text, "LINE";
        /// Ask before each attempt but the first (retry), or before each (always) [default: retry]
        "done-check-on" => "done_check.on", Text, "WHEN", with "done-check";
    }
    "Notifications" {
        /// If a run failed for good, timed out or was lost: a line for /bin/sh, or a URL that gets
        /// a JSON body by POST
        "on-failure" => "on_failure", Notice, "LINE|URL";
        /// If a run succeeded
        "on-success" => "on_success", Notice, "LINE|URL";
        /// If a run starts late or is skipped as missed
        "on-late" => "on_late", Notice, "LINE|URL";
        /// If a run succeeded after one that did not
        "on-recovered" => "on_recovered", Notice, "LINE|URL";
        /// Notify by --on-late if a run has not started this long after it was due, also if no node
        /// takes it
        "must-start-within" => "must_start_within", Duration, "DURATION", with "on-late";
        /// Notify by --on-late if a run has not ended this long after it was due
        "must-finish-within" => "must_finish_within", Duration, "DURATION", with "on-late";
        /// Ping this URL when a run starts, succeeds or fails, as healthchecks.io does
        "ping-url" => "ping_url", Text, "URL";
        /// Sign requests as Standard Webhooks: ${credential:NAME}, or whsec_...; may be given
        /// several times
        "webhook-secret" => "webhook_secret", Texts, "SECRET";
    }
    "Only once" {
        /// Refuse to add while another job holds this key: until that job is over, or for
        /// --unique-for
        "unique" => "unique.key", UniqueKey("refuse"), "KEY";
        /// Keep only the last add with this key before the job starts: its definition and its time
        "debounce" => "unique.key", UniqueKey("debounce"), "KEY";
        /// Postpone the job by --debounce at most this long after the first add [default: no limit]
        "max-wait" => "unique.max_wait", Duration, "DURATION", with "debounce";
        /// Keep only the first add with this key within --unique-for; later adds are dropped and
        /// succeed
        "throttle" => "unique.key", UniqueKey("throttle"), "KEY";
        /// Hold the key this long from now, also past the end of the job
        "unique-for" => "unique.for", Duration, "DURATION", with "only";
    }
};
