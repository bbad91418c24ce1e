//! The declarations of the flags of `add` that set keys of the job.
//!
//! A declaration has the name of the flag, the key of `[jobs.X]` that the flag sets, the form of
//! the value and its placeholder in `--help`. `--fold` and `--allow-past` set no key: they change
//! the meaning of `--at`.

use super::key_flag::KeyFlag;
use super::key_flag::ValueForm::{
    Codes, Command, Content, Count, Duration, Files, Fold, Headers, Json, List, Notice, Processors,
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
        /// Run when this cron expression matches, including forms such as @daily and @every 90s;
        /// may be given several times
        "cron" => "cron", Texts, "EXPR";
        /// Run repeatedly at this interval
        "every" => "every", Duration, "DURATION";
        /// Run repeatedly, this long after the end of the previous run
        "delay" => "delay", Duration, "DURATION";
        /// Run when these jobs have succeeded, once for each run of the job at the top of the chain
        "after" => "after", List, "JOBS";
        /// Run when these jobs have ended and at least one of them has succeeded
        "after-any" => "after_any", List, "JOBS";
        /// Run when these jobs have ended and at least one of them has failed
        "after-failed" => "after_failed", List, "JOBS";
        /// Run when these jobs have ended, however they ended
        "after-finished" => "after_finished", List, "JOBS";
        /// Run when this systemd OnCalendar expression matches, such as 'Mon..Fri 09:00'; may be
        /// given several times
        "calendar" => "calendar", Texts, "EXPR";
        /// Run by this iCalendar rule, such as 'FREQ=MONTHLY;BYDAY=-1FR'; may be given several
        /// times
        "rrule" => "rrule", Texts, "RULE", with "dtstart";
        /// Local start time of --rrule: 2026-01-05T09:00
        "dtstart" => "dtstart", Text, "LOCAL TIME", with "rrule";
        /// Time of one occurrence of --every, from which all its occurrences are counted [default:
        /// the time at which the job was first added]
        "anchor" => "anchor", Time, "TIME", with "every";
        /// No occurrences before this time
        "start" => "start", Time, "TIME";
        /// No occurrences after this time
        "end" => "end", Time, "TIME";
        /// Stop after N scheduled runs
        "max-runs" => "max_runs", Count, "N";
        /// Delay each run by a random time of at most this duration, drawn anew for each run
        "jitter" => "jitter", Duration, "DURATION";
        /// Delay all runs of the job by the same time of at most this duration, derived from the
        /// job's name
        "splay" => "splay", Duration, "DURATION";
        /// Do not run on these days: 2026-12-24, 2026-12-24..2027-01-01, sat, sat..sun; may be
        /// given several times
        "exclude" => "exclude", List, "DAYS";
        /// Run only on these days
        "only-on" => "only_on", List, "DAYS";
        /// Skip a run that would start more than this duration after its due time
        "skip-if-late" => "skip_if_late", Duration, "DURATION";
        /// Time zone of --cron, --calendar, --rrule and --at, such as Europe/Berlin [default: the
        /// zone of this host]
        "tz" => "tz", Text, "ZONE";
        /// Which time to use if the clock shows the local time of --at twice [default: first]
        "fold" => "", Fold, "WHICH", with "at";
        /// Accept past times in --at; the newest past time runs at once, older ones do not run
        "allow-past" => "", Switch, "", with "at";
        /// If the clock skips a time of --cron, --calendar or --rrule: run-after (once, right after
        /// the gap) or skip [default: run-after, but skip if the minute or hour begins with *]
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
        /// Hand the runs to workers of this handler
        "handler" => "handler", Text, "NAME";
        /// Input of the work of a worker: a JSON value, or @ and a file with one [default: null]
        "payload" => "payload", Json, "JSON|@FILE", with "handler";
        /// Method of the request [default: GET, or POST with --body]
        "method" => "http.method", Text, "METHOD";
        /// Header field of the request, NAME:VALUE; may be given several times
        "header" => "http.headers", Headers, "NAME:VALUE";
        /// Body of the request, or @FILE for the content of a file
        "body" => "http.body", Content, "TEXT|@FILE";
        /// Status codes that count as success, such as 200,204 [default: any 2xx]
        "expect" => "http.expect", Codes, "CODES";
        /// Environment variable of the command; the value may contain ${credential:NAME}; may be
        /// given several times
        "env" => "env", Variables, "NAME=VALUE";
        /// File with environment variables, one NAME=VALUE per line, read at each attempt; with a
        /// minus before the path, the file is optional; may be given several times
        "env-file" => "env_file", Files, "FILE";
        /// Also write each line of output to the log of the node
        "log-output" => "log_output", Switch, "";
        /// Working directory of the command [default: the home directory of its user]
        "cwd" => "cwd", Text, "DIR";
        /// User, and optionally group, on the node's host to run the command as [default: the user
        /// of schedd]
        "user" => "user", Text, "USER[:GROUP]";
        /// Memory limit for all processes of a run together, such as 512M; a run above the limit is
        /// killed
        "limit-memory" => "limits.memory", Text, "SIZE";
        /// CPU limit for all processes of a run together, in processors, such as 0.5
        "limit-cpu" => "limits.cpu", Processors, "N";
        /// Maximum number of processes and threads of a run
        "limit-pids" => "limits.pids", Whole, "N";
        /// Maximum number of open files of each process
        "limit-files" => "limits.files", Whole, "N";
        /// CPU niceness, 0 to 19; a higher number means a lower priority
        "nice" => "limits.nice", Whole, "N";
        /// File mode creation mask (umask) of the command, in octal [default: 0022]
        "umask" => "umask", Text, "MASK";
        /// Trace of the runs, as W3C Trace Context writes it; the run gets it as the variable
        /// TRACEPARENT or the header traceparent
        "traceparent" => "traceparent", Text, "TRACEPARENT";
        /// Standard input of the command, or @FILE for the content of a file [default: empty]
        "stdin-text" => "stdin", Content, "TEXT|@FILE";
        /// Shell that runs the line of --shell with -c [default: /bin/sh]
        "shell-program" => "shell_program", Text, "PROGRAM";
    }
    "Rules" {
        /// Queue of the job: default, or one that a jobs file declares by [queues.QUEUE]
        /// [default: default]
        "queue" => "queue", Text, "QUEUE";
        /// Priority among the runs of its queue, -10 to 10; the highest number starts first
        /// [default: 0]
        "priority" => "priority", Whole, "N";
        /// Labels that a node needs to run the job, such as gpu,eu
        "requires" => "requires", List, "LABELS";
        /// Tag by which list, history and queues select jobs, such as team=db; may be given several
        /// times
        "tag" => "tags", Variables, "NAME=VALUE";
        /// Nodes that run the job, such as web1,web2, or each-node for a run on each node
        "on" => "on", List, "NODES";
        /// Most nodes that run the job at once, with --on each-node
        "max-parallel" => "max_parallel", Whole, "N";
        /// Group of the job; at most one run of the group runs at a time
        "group" => "group", Text, "GROUP";
        /// Concurrency key, such as customer-42; at most one run of all jobs with the same key runs
        /// at a time
        "key" => "key", Text, "KEY";
        /// Maximum number of runs with the same --key at the same time [default: 1, or any number
        /// with --per-key-rate]
        "per-key" => "per_key.limit", Whole, "N";
        /// Rate limit for the starts of runs with the same --key, such as 10/1m
        "per-key-rate" => "per_key.rate", Text, "RATE";
        /// Number of runs that may start at once under --per-key-rate [default: the number in the
        /// rate]
        "per-key-burst" => "per_key.burst", Whole, "N", with "per-key-rate";
        /// Jobs that must not run at the same time as this job
        "not-while" => "not_while", List, "JOBS";
        /// Longest time ahead that a run may set for the next run [default: 1d]
        "next-within" => "next_within", Duration, "DURATION";
        /// Maximum duration of one attempt [default: 1h]
        "timeout" => "timeout", Duration, "DURATION";
        /// Time between SIGTERM and SIGKILL [default: 5s]
        "kill-grace" => "kill_grace", Duration, "DURATION";
        /// Maximum number of retries after a failed attempt [default: 0]
        "retry" => "retry.limit", Whole, "N";
        /// Delay before the first retry, less a random part of up to half [default: 10s]
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
        /// Occurrences to run late if no node could run them in time: skip (none), latest or all
        /// [default: latest]
        "catch-up" => "catch_up.mode", Text, "HOW";
        /// Skip occurrences older than this duration, even with --catch-up all
        "max-age" => "catch_up.max_age", Duration, "DURATION";
        /// Spread the starts of the late runs of --catch-up over this duration
        "spread" => "catch_up.spread", Duration, "DURATION";
        /// If a node dies during a run: at-least-once (the run is tried again) or at-most-once (the
        /// run ends as lost) [default: at-least-once]
        "delivery" => "delivery", Text, "HOW";
        /// Line for /bin/sh that checks before an attempt if the work is already done: exit code 0
        /// means yes, 1 means no, any other code means check again later
        "done-check" => "done_check.shell", Text, "LINE";
        /// Run --done-check before each attempt except the first (retry), or before each attempt
        /// (always) [default: retry]
        "done-check-on" => "done_check.on", Text, "WHEN", with "done-check";
    }
    "Notifications" {
        /// Notify if a run failed for good, timed out or was lost; LINE is run by /bin/sh, URL gets
        /// a JSON body by POST
        "on-failure" => "on_failure", Notice, "LINE|URL";
        /// Notify if a run succeeded
        "on-success" => "on_success", Notice, "LINE|URL";
        /// Notify if a run starts late or is skipped as missed
        "on-late" => "on_late", Notice, "LINE|URL";
        /// Notify if a run succeeded after a run that did not succeed
        "on-recovered" => "on_recovered", Notice, "LINE|URL";
        /// Notify by --on-late if a run has not started this long after it was due, even if no node
        /// is running
        "must-start-within" => "must_start_within", Duration, "DURATION", with "on-late";
        /// Notify by --on-late if a run has not ended this long after it was due
        "must-finish-within" => "must_finish_within", Duration, "DURATION", with "on-late";
        /// Ping this URL when a run starts, succeeds or fails, by the protocol of healthchecks.io
        "ping-url" => "ping_url", Text, "URL";
        /// Secret with which requests are signed as Standard Webhooks defines:
        /// ${credential:NAME}, or whsec_...; may be given several times
        "webhook-secret" => "webhook_secret", Texts, "SECRET";
    }
    "Only once" {
        /// Refuse the job while another job holds this key; a job holds its key until the job is
        /// over, or for --unique-for
        "unique" => "unique.key", UniqueKey("refuse"), "KEY";
        /// If a job with this key has not started yet, replace the definition and the time of that
        /// job
        "debounce" => "unique.key", UniqueKey("debounce"), "KEY";
        /// Latest start of a job with --debounce, as a time after the first add [default: no limit]
        "max-wait" => "unique.max_wait", Duration, "DURATION", with "debounce";
        /// Keep only the first add with this key within --unique-for; later adds succeed without a
        /// change
        "throttle" => "unique.key", UniqueKey("throttle"), "KEY";
        /// Hold the key this long from now, even after the end of the job
        "unique-for" => "unique.for", Duration, "DURATION", with "only";
    }
};
