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
alone is its midnight.
The time that was understood is printed; one inside a gap of the zone's clock is refused with its
neighbours.
Durations, here and everywhere: 90s, 2h30m, 1.5h, 1d, 1w, 250ms, PT2H30M.

A line for --stdin is an object with the keys of [jobs.X] in jobs.toml, plus name and in:
  {\"name\": \"report\", \"in\": \"10m\", \"command\": [\"/usr/local/bin/report\"], \"retry\": 3}
A unique key is \"unique\": \"K\" with \"unique_for\", or
  \"unique\": {\"key\": \"K\", \"for\": \"1h\", \"mode\": \"throttle\"}
A bad line is told with its number and the others go in; the code is 1 then. An at of a line that is
already past runs at once, of several the newest. What is doubtful of a line goes in with a warning,
of which 20 are told.";

const USAGE: &str = "\
schedctl add [OPTIONS] -- COMMAND [ARG]...
       schedctl add [OPTIONS] --shell LINE
       schedctl add [OPTIONS] --http URL
       schedctl add --stdin [--replace | --if-absent]";

/// One of the two comings of a local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fold {
    #[value(alias = "0")]
    First,
    #[value(alias = "1")]
    Second,
}

/// A text that is no finite number of processors.
#[derive(Debug, thiserror::Error)]
#[error("wanted a number such as 0.5, more than 0, at most 1000")]
pub(in crate::cli) struct ProcessorsError;

/// The number `text` means. JSON, by which the flags are judged, has none that is not finite.
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
pub(in crate::cli) struct AddArgs {
    /// Name of the job: a-z 0-9 . _ - [default: job- and ten random letters]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Run once, so long from now; 0s is at once
    #[arg(long = "in", value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) start_in: Option<String>,
    /// Run once at this time; given several times, at each of them
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) at: Vec<String>,
    /// Run when this cron expression matches (@every 90s and @daily too); may be given several times
    #[arg(long, value_name = "EXPR", help_heading = "When")]
    pub(super) cron: Vec<String>,
    /// Run again and again, so far apart
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) every: Option<String>,
    /// Run again and again, so long after the end of the run before
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) delay: Option<String>,
    /// Run when this expression of systemd's OnCalendar matches, such as 'Mon..Fri 09:00'; may be given several times
    #[arg(long, value_name = "EXPR", help_heading = "When")]
    pub(super) calendar: Vec<String>,
    /// Run as this iCalendar rule says, such as 'FREQ=MONTHLY;BYDAY=-1FR'; may be given several times
    #[arg(long, value_name = "RULE", requires = "dtstart", help_heading = "When")]
    pub(super) rrule: Vec<String>,
    /// What --rrule counts from, by the wall clock: 2026-01-05T09:00
    #[arg(long, value_name = "LOCAL TIME", requires = "rrule", help_heading = "When")]
    pub(super) dtstart: Option<String>,
    /// What --every counts from, itself a time to run [default: when the job was first added]
    #[arg(long, value_name = "TIME", requires = "every", help_heading = "When")]
    pub(super) anchor: Option<String>,
    /// Nothing before this time
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) start: Option<String>,
    /// Nothing after this time
    #[arg(long, value_name = "TIME", help_heading = "When")]
    pub(super) end: Option<String>,
    /// So many runs, then no more
    #[arg(long, value_name = "N", help_heading = "When")]
    pub(super) max_runs: Option<u32>,
    /// Start each run up to so much later, drawn anew each time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) jitter: Option<String>,
    /// Start all runs so much later, up to this; the same for each run of the job
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) splay: Option<String>,
    /// Not on these days: 2026-12-24, 2026-12-24..2027-01-01, sat, sat..sun; may be given several times
    #[arg(long, value_name = "DAYS", value_delimiter = ',', help_heading = "When")]
    pub(super) exclude: Vec<String>,
    /// Only on these days
    #[arg(long, value_name = "DAYS", value_delimiter = ',', help_heading = "When")]
    pub(super) only_on: Vec<String>,
    /// Skip a run that would start later than so long after it was to
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "When")]
    pub(super) skip_if_late: Option<String>,
    /// Time zone of --cron, --calendar, --rrule and --at, such as Europe/Berlin [default: that of this host]
    #[arg(long, value_name = "ZONE", help_heading = "When")]
    pub(super) tz: Option<String>,
    /// Which one of a local --at that comes twice, as the clock goes back [default: first]
    #[arg(long, value_name = "WHICH", requires = "at", value_enum, help_heading = "When")]
    pub(super) fold: Option<Fold>,
    /// Take an --at that is past: it runs at once; of several past ones the newest is wanted alone
    #[arg(long, requires = "at", help_heading = "When")]
    pub(super) allow_past: bool,
    /// When the clock goes forward over a time of --cron, --calendar or --rrule: run-after (once, right after) or skip [default:
    /// run-after, but skip if the minute or hour begins with *]
    #[arg(long, value_name = "RULE", help_heading = "When")]
    pub(super) dst_gap: Option<String>,
    /// When the clock goes back and shows a time of --cron, --calendar or --rrule twice: first, last or both [default: first, but
    /// both if the minute or hour begins with *]
    #[arg(long, value_name = "RULE", help_heading = "When")]
    pub(super) dst_fold: Option<String>,

    /// Program and its arguments, run without a shell
    #[arg(last = true, value_name = "COMMAND", help_heading = "What")]
    pub(super) command: Vec<String>,
    /// Line for /bin/sh -c
    #[arg(long, value_name = "LINE", help_heading = "What")]
    pub(super) shell: Option<String>,
    /// Make a request to this URL
    #[arg(long, value_name = "URL", help_heading = "What")]
    pub(super) http: Option<String>,
    /// Method of the request [default: GET, with a body POST]
    #[arg(long, help_heading = "What")]
    pub(super) method: Option<String>,
    /// Header field of the request, NAME:VALUE; may be given several times
    #[arg(long, value_name = "NAME:VALUE", help_heading = "What")]
    pub(super) header: Vec<String>,
    /// Body of the request, or @FILE for what is in a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "What")]
    pub(super) body: Option<String>,
    /// Statuses that count as success, such as 200,204 [default: any 2xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', help_heading = "What")]
    pub(super) expect: Vec<u16>,
    /// Variable of the command's environment, which may hold ${credential:NAME}; may be given several times
    #[arg(long, value_name = "NAME=VALUE", help_heading = "What")]
    pub(super) env: Vec<String>,
    /// File of more variables, NAME=VALUE a line, read at each attempt; with - before it, it may be missing; may be given several times
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = "What")]
    pub(super) env_file: Vec<String>,
    /// Write each line it prints into the log of its node too
    #[arg(long, help_heading = "What")]
    pub(super) log_output: bool,
    /// Directory the command starts in [default: the home of its user]
    #[arg(long, value_name = "DIR", help_heading = "What")]
    pub(super) cwd: Option<String>,

    /// User of the node's host the command runs as, and its group [default: the user of schedd]
    #[arg(long, value_name = "USER[:GROUP]", help_heading = "What")]
    pub(super) user: Option<String>,
    /// Memory of all its processes together, such as 512M: past it they are killed
    #[arg(long, value_name = "SIZE", help_heading = "What")]
    pub(super) limit_memory: Option<String>,
    /// Processor time of all of them together, in processors, such as 0.5
    #[arg(long, value_name = "N", value_parser = processors, allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_cpu: Option<f64>,
    /// Processes and threads it may have
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_pids: Option<i64>,
    /// Files each of its processes may have open
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) limit_files: Option<i64>,
    /// How far it gives way to others, 0 to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "What")]
    pub(super) nice: Option<i64>,
    /// Permissions new files do not get, octal [default: 0022]
    #[arg(long, value_name = "MASK", help_heading = "What")]
    pub(super) umask: Option<String>,
    /// What the command reads on its standard input, or @FILE for what is in a file [default: nothing]
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "What")]
    pub(super) stdin_text: Option<String>,
    /// Shell that runs the line of --shell, by -c [default: /bin/sh]
    #[arg(long, value_name = "PROGRAM", help_heading = "What")]
    pub(super) shell_program: Option<String>,

    /// Queue it runs in [default: default]
    #[arg(long, value_name = "QUEUE", help_heading = "Rules")]
    pub(super) queue: Option<String>,
    /// How urgent it is among the runs of its queue, -10 to 10; the greater first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) priority: Option<i64>,
    /// Labels a node has to carry to run it, such as gpu,eu
    #[arg(long, value_name = "LABELS", value_delimiter = ',', help_heading = "Rules")]
    pub(super) requires: Vec<String>,
    /// Group it is in: of its jobs one runs at a time
    #[arg(long, value_name = "GROUP", help_heading = "Rules")]
    pub(super) group: Option<String>,
    /// What it shares with other jobs of the same key, such as customer-42: of them one runs at a time
    #[arg(long, value_name = "KEY", help_heading = "Rules")]
    pub(super) key: Option<String>,
    /// How many of its key run at once [default: 1, or any number with --per-key-rate]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) per_key: Option<i64>,
    /// How often one of its key may start, such as 10/1m
    #[arg(long, value_name = "RATE", help_heading = "Rules")]
    pub(super) per_key_rate: Option<String>,
    /// How many of them at once [default: all that the rate allows in its time]
    #[arg(long, value_name = "N", requires = "per_key_rate", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) per_key_burst: Option<i64>,
    /// Jobs it is not to run beside, whichever began
    #[arg(long, value_name = "JOBS", value_delimiter = ',', help_heading = "Rules")]
    pub(super) not_while: Vec<String>,
    /// Longest time of one attempt [default: 1h]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) timeout: Option<String>,
    /// Time from TERM to KILL [default: 5s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) kill_grace: Option<String>,
    /// Attempts after a failed first one [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Rules")]
    pub(super) retry: Option<i64>,
    /// Wait before the first retry [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "retry", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) retry_delay: Option<String>,
    /// How the wait grows: fixed, linear or exponential [default: exponential]
    #[arg(long, value_name = "HOW", requires = "retry", help_heading = "Rules")]
    pub(super) retry_backoff: Option<String>,
    /// Retry only on these exit codes, or statuses of --http, such as 75,124 (124 is a time-out)
    #[arg(long, value_name = "CODES", requires = "retry", value_delimiter = ',', help_heading = "Rules")]
    pub(super) retry_on: Vec<u16>,
    /// Do not retry on these exit codes or statuses
    #[arg(long, value_name = "CODES", requires = "retry", value_delimiter = ',', help_heading = "Rules")]
    pub(super) retry_never_on: Vec<u16>,
    /// While the run before is not over: skip, queue, replace or allow [default: skip]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) overlap: Option<String>,
    /// Of missed times run: skip (none), latest or all [default: latest]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) catch_up: Option<String>,
    /// Skip what is later than this, whatever else is said
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) max_age: Option<String>,
    /// Start missed times that run within this time instead of at once
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rules")]
    pub(super) spread: Option<String>,
    /// When a host dies: at-least-once or at-most-once [default: at-least-once]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub(super) delivery: Option<String>,
    /// Before an attempt, ask this line of /bin/sh whether the work is done: 0 yes, 1 no, else ask again later
    #[arg(long, value_name = "LINE", help_heading = "Rules")]
    pub(super) done_check: Option<String>,
    /// Ask before each attempt but the first (retry), or before each (always) [default: retry]
    #[arg(long, value_name = "WHEN", requires = "done_check", help_heading = "Rules")]
    pub(super) done_check_on: Option<String>,

    /// When a run has failed for good, timed out or is lost: a line of /bin/sh, or a URL that gets a JSON body by POST
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_failure: Option<String>,
    /// When a run has succeeded
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_success: Option<String>,
    /// When a run starts late or is skipped as missed
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_late: Option<String>,
    /// When a run has succeeded after one that had not
    #[arg(long, value_name = "LINE|URL", help_heading = "Being told")]
    pub(super) on_recovered: Option<String>,
    /// Tell by --on-late when a run has not started so long after it was due, also if no node takes it
    #[arg(long, value_name = "DURATION", requires = "on_late", allow_hyphen_values = true, help_heading = "Being told")]
    pub(super) must_start_within: Option<String>,
    /// Tell by --on-late when a run has not ended so long after it was due
    #[arg(long, value_name = "DURATION", requires = "on_late", allow_hyphen_values = true, help_heading = "Being told")]
    pub(super) must_finish_within: Option<String>,
    /// Ping this URL when a run starts, succeeds or fails, in the form of healthchecks.io
    #[arg(long, value_name = "URL", help_heading = "Being told")]
    pub(super) ping_url: Option<String>,
    /// Sign requests by Standard Webhooks: ${credential:NAME}, or whsec_...; may be given several times
    #[arg(long, value_name = "SECRET", help_heading = "Being told")]
    pub(super) webhook_secret: Vec<String>,

    /// Refuse to add while another job holds this key: until that is over, or for --unique-for
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) unique: Option<String>,
    /// Of all adds with this key before the job begins the last one counts: its definition and its time
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) debounce: Option<String>,
    /// Move it on for so long from the first of these adds at most [default: as long as adds come]
    #[arg(long, value_name = "DURATION", requires = "debounce", allow_hyphen_values = true, help_heading = "Only once")]
    pub(super) max_wait: Option<String>,
    /// Of all adds with this key within --unique-for the first one counts, and the others are dropped, which is a success
    #[arg(long, value_name = "KEY", help_heading = "Only once")]
    pub(super) throttle: Option<String>,
    /// Hold the key so long from now, also past the end of the job
    #[arg(long, value_name = "DURATION", requires = "only", allow_hyphen_values = true, help_heading = "Only once")]
    pub(super) unique_for: Option<String>,

    /// Read one JSON object a line from the standard input
    #[arg(long, conflicts_with_all = [
        "name", "when", "dtstart", "anchor", "start", "end", "max_runs", "jitter", "splay", "exclude", "only_on", "skip_if_late",
        "tz", "fold", "allow_past", "dst_gap", "dst_fold", "env", "env_file", "log_output", "cwd", "user", "limit_memory", "limit_cpu", "limit_pids", "limit_files", "nice", "umask", "stdin_text", "shell_program", "queue", "priority", "requires", "group", "key", "per_key", "per_key_rate", "per_key_burst",
         "not_while", "timeout", "kill_grace", "retry", "overlap",
        "catch_up", "max_age", "spread", "delivery", "done_check", "only", "max_wait", "unique_for",
        "on_failure", "on_success", "on_late", "on_recovered", "must_start_within", "must_finish_within", "ping_url", "webhook_secret",
    ])]
    pub(super) stdin: bool,
    /// If the name is taken, change that job
    #[arg(long)]
    pub(super) replace: bool,
    /// If the name is taken, or the key of --unique, leave that job and call it success
    #[arg(long)]
    pub(super) if_absent: bool,
}
