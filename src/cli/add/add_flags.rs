//! The flags of `add`.

use clap::{ArgGroup, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  schedctl add --in 10m -- /usr/local/bin/report --year 2026
  schedctl add --name report --at 'tomorrow 9am' --tz Europe/Berlin --shell 'make report'
  schedctl add --name backup --cron '30 2 * * *' --retry 3 --timeout 2h -- /usr/local/bin/backup
  schedctl add --name ping --every 30s --http https://example.com/ping --method POST
  schedctl add --name close --calendar 'Mon..Fri 17:30' --exclude 2026-12-24..2027-01-01 -- close
  schedctl add --in 30s --debounce reindex -- /usr/local/bin/reindex
  schedctl add --stdin < jobs.jsonl

Without --in, --at, --cron, --every, --delay, --calendar or --rrule the job runs only when asked, by
schedctl run.

Times for --at, --anchor, --start and --end: 2026-12-24T09:00:00+01:00, '2026-12-24 09:00',
'24 dec 9am', 09:00, noon, 'tomorrow 9am', 'fri 17:00', 'next fri', 'in 2h30m', @1790000000. A day
alone means its midnight.
The time that was understood is printed. A time that the zone's clock skips is refused, with the
times before and after.
Durations, here and everywhere: 90s, 2h30m, 1.5h, 1d, 1w, 250ms, PT2H30M.

A line for --stdin is an object with the keys of [jobs.X] in jobs.toml, plus name and in:
  {\"name\": \"report\", \"in\": \"10m\", \"command\": [\"/usr/local/bin/report\"], \"retry\": 3}
A unique key is \"unique\": \"K\" with \"unique_for\", or
  \"unique\": {\"key\": \"K\", \"for\": \"1h\", \"mode\": \"throttle\"}
A bad line is reported with its number, the other lines are added, and the exit code is 1. A past at
of a line runs at once; of several past ones only the newest runs. A doubtful line is added with a
warning; at most 20 warnings are shown.";

const USAGE: &str = "\
schedctl add [OPTIONS] -- COMMAND [ARG]...
       schedctl add [OPTIONS] --shell LINE
       schedctl add [OPTIONS] --http URL
       schedctl add --stdin [--replace | --if-absent]";

/// A choice between the two instants of a local time that the clock shows twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FoldFlag {
    #[value(alias = "0")]
    First,
    #[value(alias = "1")]
    Second,
}

/// The error for a text that is not a finite number of processors.
#[derive(Debug, thiserror::Error)]
#[error("wanted a number such as 0.5, more than 0, at most 1000")]
pub(crate) struct ProcessorsError;

/// Parses a number of processors. Infinity and NaN are refused, because the flags are checked as
/// JSON, which cannot express them.
fn processors(text: &str) -> Result<f64, ProcessorsError> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(ProcessorsError)
}

/// Adds a job and prints its name. Without a schedule it runs only when asked (schedctl run).
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line, and clap keeps them apart")]
#[allow(clippy::doc_markdown, reason = "these comments are texts of --help")]
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = USAGE,
    group(ArgGroup::new("when").args(["start_in", "at", "cron", "every", "delay", "calendar", "rrule"])),
    group(ArgGroup::new("what").required(true).args(["command", "shell", "http", "stdin"])),
    group(ArgGroup::new("taken").args(["replace", "if_absent"])),
    group(ArgGroup::new("only").args(["unique", "debounce", "throttle"])),
)]
pub(crate) struct AddArgs {
    /// Name of the job: a-z 0-9 . _ - [default: job- and ten random letters]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Run once after this delay; 0s means at once
    #[arg(long = "in", value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) start_in: Option<String>,
    /// Run once at this time; may be given several times
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) at: Vec<String>,
    /// Run when this cron expression matches (@every 90s and @daily too); may be given several
    /// times
    #[arg(long, value_name = "EXPR", help_heading = "When")]
    pub(super) cron: Vec<String>,
    /// Run repeatedly at this interval
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) every: Option<String>,
    /// Run repeatedly, this long after the end of the previous run
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) delay: Option<String>,
    /// Run when this systemd OnCalendar expression matches, such as 'Mon..Fri 09:00'; may be given
    /// several times
    #[arg(long, value_name = "EXPR", help_heading = "When")]
    pub(super) calendar: Vec<String>,
    /// Run by this iCalendar rule, such as 'FREQ=MONTHLY;BYDAY=-1FR'; may be given several times
    #[arg(long, value_name = "RULE", requires = "dtstart", help_heading = "When")]
    pub(super) rrule: Vec<String>,
    /// Local start time of --rrule: 2026-01-05T09:00
    #[arg(long, value_name = "LOCAL TIME", requires = "rrule", help_heading = "When")]
    pub(super) dtstart: Option<String>,
    /// Time from which --every counts, itself an occurrence [default: when the job was first added]
    #[arg(long, value_name = "TIME", requires = "every", help_heading = "When")]
    pub(super) anchor: Option<String>,
    /// No occurrences before this time
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) start: Option<String>,
    /// No occurrences after this time
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) end: Option<String>,
    /// Stop after N scheduled runs
    #[arg(long, value_name = "N", help_heading = "When")]
    pub(super) max_runs: Option<u32>,
    /// Delay each run by a random time up to this, new for each run
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) jitter: Option<String>,
    /// Delay all runs by a fixed time up to this, derived from the job
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) splay: Option<String>,
    /// Do not run on these days: 2026-12-24, 2026-12-24..2027-01-01, sat, sat..sun; may be given
    /// several times
    #[arg(long, value_name = "DAYS", value_delimiter = ',', help_heading = "When")]
    pub(super) exclude: Vec<String>,
    /// Run only on these days
    #[arg(long, value_name = "DAYS", value_delimiter = ',', help_heading = "When")]
    pub(super) only_on: Vec<String>,
    /// Skip a run that would start more than this after it should have started
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) skip_if_late: Option<String>,
    /// Time zone of --cron, --calendar, --rrule and --at, such as Europe/Berlin [default: that of
    /// this host]
    #[arg(long, value_name = "ZONE", help_heading = "When")]
    pub(super) tz: Option<String>,
    /// Which one to take if the clock shows a local --at twice [default: first]
    #[arg(long, value_name = "WHICH", requires = "at", value_enum, help_heading = "When")]
    pub(super) fold: Option<FoldFlag>,
    /// Accept a past --at, which runs at once; of several past ones only the newest runs
    #[arg(long, requires = "at", help_heading = "When")]
    pub(super) allow_past: bool,
    /// If the clock skips a time of --cron, --calendar or --rrule: run-after (once, right after) or
    /// skip [default: run-after, but skip if the minute or hour begins with *]
    #[arg(long, value_name = "RULE", help_heading = "When")]
    pub(super) dst_gap: Option<String>,
    /// If the clock shows a time of --cron, --calendar or --rrule twice: first, last or both
    /// [default: first, but both if the minute or hour begins with *]
    #[arg(long, value_name = "RULE", help_heading = "When")]
    pub(super) dst_fold: Option<String>,

    /// Program and its arguments, run without a shell
    #[arg(last = true, value_name = "COMMAND", help_heading = "What")]
    pub(super) command: Vec<String>,
    /// Command line for /bin/sh -c
    #[arg(long, value_name = "LINE", help_heading = "What")]
    pub(super) shell: Option<String>,
    /// Send a request to this URL
    #[arg(long, value_name = "URL", help_heading = "What")]
    pub(super) http: Option<String>,
    /// Method of the request [default: GET, with a body POST]
    #[arg(long, help_heading = "What")]
    pub(super) method: Option<String>,
    /// Header field of the request, NAME:VALUE; may be given several times
    #[arg(long, value_name = "NAME:VALUE", help_heading = "What")]
    pub(super) header: Vec<String>,
    /// Body of the request, or @FILE for the content of a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "What")]
    pub(super) body: Option<String>,
    /// Status codes that count as success, such as 200,204 [default: any 2xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', help_heading = "What")]
    pub(super) expect: Vec<u16>,
    /// Environment variable of the command, may contain ${credential:NAME}; may be given several
    /// times
    #[arg(long, value_name = "NAME=VALUE", help_heading = "What")]
    pub(super) env: Vec<String>,
    /// File with environment variables, one NAME=VALUE a line, read at each attempt; a leading -
    /// makes it optional; may be given several times
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = "What")]
    pub(super) env_file: Vec<String>,
    /// Also write each line of output to the log of the node
    #[arg(long, help_heading = "What")]
    pub(super) log_output: bool,
    /// Working directory of the command [default: the home of its user]
    #[arg(long, value_name = "DIR", help_heading = "What")]
    pub(super) cwd: Option<String>,

    /// User, and optionally group, on the node's host to run the command as [default: the user of
    /// schedd]
    #[arg(long, value_name = "USER[:GROUP]", help_heading = "What")]
    pub(super) user: Option<String>,
    /// Memory limit for all processes of a run together, such as 512M; above it they are killed
    #[arg(long, value_name = "SIZE", help_heading = "What")]
    pub(super) limit_memory: Option<String>,
    /// CPU limit for all processes of a run together, in processors, such as 0.5
    #[arg(long, value_name = "N", value_parser = processors, allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_cpu: Option<f64>,
    /// Maximum number of processes and threads of a run
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_pids: Option<i64>,
    /// Maximum number of open files of each process
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_files: Option<i64>,
    /// CPU niceness, 0 to 19: a higher number gives way to other processes
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) nice: Option<i64>,
    /// Permissions that new files do not get, octal [default: 0022]
    #[arg(long, value_name = "MASK", help_heading = "What")]
    pub(super) umask: Option<String>,
    /// Standard input of the command, or @FILE for the content of a file [default: nothing]
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "What")]
    pub(super) stdin_text: Option<String>,
    /// Shell that runs the line of --shell with -c [default: /bin/sh]
    #[arg(long, value_name = "PROGRAM", help_heading = "What")]
    pub(super) shell_program: Option<String>,

    /// Queue of the job [default: default]
    #[arg(long, value_name = "QUEUE", help_heading = "Rules")]
    pub(super) queue: Option<String>,
    /// Priority among the runs of its queue, -10 to 10; higher runs first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) priority: Option<i64>,
    /// Labels that a node needs to run the job, such as gpu,eu
    #[arg(long, value_name = "LABELS", value_delimiter = ',', help_heading = "Rules")]
    pub(super) requires: Vec<String>,
    /// Group of the job: one run of the group runs at a time
    #[arg(long, value_name = "GROUP", help_heading = "Rules")]
    pub(super) group: Option<String>,
    /// Concurrency key, such as customer-42: one run of all jobs with the same key runs at a time
    #[arg(long, value_name = "KEY", help_heading = "Rules")]
    pub(super) key: Option<String>,
    /// Number of runs with the same --key at once [default: 1, or any number with --per-key-rate]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) per_key: Option<i64>,
    /// Start rate of runs with the same --key, such as 10/1m
    #[arg(long, value_name = "RATE", help_heading = "Rules")]
    pub(super) per_key_rate: Option<String>,
    /// Number of runs that may start at once under --per-key-rate [default: the number in the rate]
    #[arg(long, value_name = "N", requires = "per_key_rate", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) per_key_burst: Option<i64>,
    /// Jobs that must not run at the same time as this job
    #[arg(long, value_name = "JOBS", value_delimiter = ',', help_heading = "Rules")]
    pub(super) not_while: Vec<String>,
    /// Maximum duration of one attempt [default: 1h]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) timeout: Option<String>,
    /// Time between SIGTERM and SIGKILL [default: 5s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) kill_grace: Option<String>,
    /// Maximum number of retries after a failed attempt [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) retry: Option<i64>,
    /// Delay before the first retry [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "retry", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) retry_delay: Option<String>,
    /// Growth of the retry delay: fixed, linear or exponential [default: exponential]
    #[arg(long, value_name = "HOW", requires = "retry", help_heading = "Rules")]
    pub(super) retry_backoff: Option<String>,
    /// Retry only on these exit codes, or status codes of --http, such as 75,124 (124 is a timeout)
    #[arg(long, value_name = "CODES", requires = "retry", value_delimiter = ',', help_heading = "Rules")]
    pub(super) retry_on: Vec<u16>,
    /// Do not retry on these exit codes or status codes
    #[arg(long, value_name = "CODES", requires = "retry", value_delimiter = ',', help_heading = "Rules")]
    pub(super) retry_never_on: Vec<u16>,
    /// If the previous run has not ended: skip, queue, replace or allow [default: skip]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) overlap: Option<String>,
    /// Missed occurrences to run: skip (none), latest or all [default: latest]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) catch_up: Option<String>,
    /// Skip occurrences older than this, whatever other rules say
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) max_age: Option<String>,
    /// Spread missed occurrences over this time instead of starting them at once
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) spread: Option<String>,
    /// If a host dies: at-least-once or at-most-once [default: at-least-once]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) delivery: Option<String>,
    /// Before an attempt, run this line with /bin/sh to ask if the work is done: exit code 0 yes, 1
    /// no, else ask again later
    #[arg(long, value_name = "LINE", help_heading = "Rules")]
    pub(super) done_check: Option<String>,
    /// Ask before each attempt but the first (retry), or before each (always) [default: retry]
    #[arg(long, value_name = "WHEN", requires = "done_check", help_heading = "Rules")]
    pub(super) done_check_on: Option<String>,

    /// If a run failed for good, timed out or was lost: a line for /bin/sh, or a URL that gets a
    /// JSON body by POST
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_failure: Option<String>,
    /// If a run succeeded
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_success: Option<String>,
    /// If a run starts late or is skipped as missed
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_late: Option<String>,
    /// If a run succeeded after one that did not
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_recovered: Option<String>,
    /// Notify by --on-late if a run has not started this long after it was due, also if no node
    /// takes it
    #[arg(long, value_name = "DURATION", requires = "on_late", allow_hyphen_values = true, help_heading = "Being told")]
    pub(super) must_start_within: Option<String>,
    /// Notify by --on-late if a run has not ended this long after it was due
    #[arg(long, value_name = "DURATION", requires = "on_late", allow_hyphen_values = true, help_heading = "Being told")]
    pub(super) must_finish_within: Option<String>,
    /// Ping this URL when a run starts, succeeds or fails, as healthchecks.io does
    #[arg(long, value_name = "URL", help_heading = "Being told")]
    pub(super) ping_url: Option<String>,
    /// Sign requests as Standard Webhooks: ${credential:NAME}, or whsec_...; may be given several
    /// times
    #[arg(long, value_name = "SECRET", help_heading = "Being told")]
    pub(super) webhook_secret: Vec<String>,

    /// Refuse to add while another job holds this key: until that job is over, or for --unique-for
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) unique: Option<String>,
    /// Keep only the last add with this key before the job starts: its definition and its time
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) debounce: Option<String>,
    /// Postpone the job by --debounce at most this long after the first add [default: no limit]
    #[arg(long, value_name = "DURATION", requires = "debounce", allow_hyphen_values = true, help_heading = "Only once")]
    pub(super) max_wait: Option<String>,
    /// Keep only the first add with this key within --unique-for; later adds are dropped and
    /// succeed
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) throttle: Option<String>,
    /// Hold the key this long from now, also past the end of the job
    #[arg(long, value_name = "DURATION", requires = "only", allow_hyphen_values = true, help_heading = "Only once")]
    pub(super) unique_for: Option<String>,

    /// Read one JSON object a line from standard input
    #[arg(long, conflicts_with_all = [
        "name", "when", "dtstart", "anchor", "start", "end", "max_runs", "jitter", "splay", "exclude", "only_on", "skip_if_late",
        "tz", "fold", "allow_past", "dst_gap", "dst_fold", "env", "env_file", "log_output", "cwd", "user", "limit_memory", "limit_cpu", "limit_pids", "limit_files", "nice", "umask", "stdin_text", "shell_program", "queue", "priority", "requires", "group", "key", "per_key", "per_key_rate", "per_key_burst",
         "not_while", "timeout", "kill_grace", "retry", "overlap",
        "catch_up", "max_age", "spread", "delivery", "done_check", "only", "max_wait", "unique_for",
        "on_failure", "on_success", "on_late", "on_recovered", "must_start_within", "must_finish_within", "ping_url", "webhook_secret",
    ])]
    pub(super) stdin: bool,
    /// Change the existing job if the name is taken
    #[arg(long)]
    pub(super) replace: bool,
    /// Succeed without a change if the name, or the key of --unique, is taken
    #[arg(long)]
    pub(super) if_absent: bool,
}
