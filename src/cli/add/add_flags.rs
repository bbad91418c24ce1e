//! The arguments of `add`: the flags that set keys of the job, and the flags that say how jobs are
//! added.

use clap::ArgGroup;

use super::flags::given_keys::{GivenKeys, flag_names};
use super::flags::key_flag::ValueForm;
use crate::cli::failure::CliFailure;

const EXAMPLES: &str = "\
Examples:
  schedctl add --in 10m -- /usr/local/bin/report --year 2026
  schedctl add --name report --at 'tomorrow 9am' --tz Europe/Berlin --shell 'make report'
  schedctl add --name backup --cron '30 2 * * *' --retry 3 --timeout 2h -- /usr/local/bin/backup
  schedctl add --name ping --every 30s --http https://example.com/ping --method POST
  schedctl add --name close --calendar 'Mon..Fri 17:30' --exclude 2026-12-24..2027-01-01 -- close
  schedctl add --in 30s --debounce reindex -- /usr/local/bin/reindex
  schedctl add --in 0s --wait --json -- /usr/local/bin/report
  schedctl add --stdin < jobs.jsonl

Without --in, --at, --cron, --every, --delay, --calendar or --rrule the job runs only by
schedctl run. --in 0s runs the job at once.

Times for --at, --anchor, --start and --end: 2026-12-24T09:00:00+01:00, '2026-12-24 09:00',
'24 dec 9am', 09:00, noon, 'tomorrow 9am', 'fri 17:00', 'next fri', 'in 2h30m', @1790000000. A day
without a time means midnight at its start.
schedctl add prints the time as it was understood. A local time that the clock of the zone skips is
refused; the message names the times before and after the gap.
Durations, here and everywhere: 90s, 2h30m, 1.5h, 1d, 1w, 250ms, PT2H30M.

A line for --stdin is an object with the keys of [jobs.X] in jobs.toml, plus name and in:
  {\"name\": \"report\", \"in\": \"10m\", \"command\": [\"/usr/local/bin/report\"], \"retry\": 3}
A unique key is \"unique\": \"K\" with \"unique_for\", or
  \"unique\": {\"key\": \"K\", \"for\": \"1h\", \"mode\": \"throttle\"}
An invalid line is reported with its line number. The other lines are added, and the exit code is 1.
If a time in \"at\" is past, the job runs at once, and only for the newest of its past times. A
warning names the past times that do not run. A line with a warning adds its job all the same. At
most 20 warnings are printed.";

const USAGE: &str = "\
schedctl add [OPTIONS] -- COMMAND [ARG]...
       schedctl add [OPTIONS] --shell LINE
       schedctl add [OPTIONS] --http URL
       schedctl add [OPTIONS] --handler NAME [--payload JSON]
       schedctl add --stdin [--replace | --if-absent]";

/// Adds a job and prints its name. A job without a schedule runs only by schedctl run.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, and clap keeps them apart"
)]
#[allow(clippy::doc_markdown, reason = "these comments are texts of --help")]
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = USAGE,
    group(ArgGroup::new("when").args(["in", "at", "cron", "every", "delay", "calendar", "rrule", "after", "after-any", "after-failed", "after-finished"])),
    group(ArgGroup::new("what").required(true).args(["command", "shell", "http", "handler", "stdin"])),
    group(ArgGroup::new("taken").args(["replace", "if_absent"])),
    group(ArgGroup::new("only").args(["unique", "debounce", "throttle"])),
)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(super) keys: GivenKeys,
    /// Read jobs from standard input, one JSON object per line
    #[arg(long, conflicts_with_all = flag_names())]
    pub(super) stdin: bool,
    /// If a job of this name exists, change that job
    #[arg(long)]
    pub(super) replace: bool,
    /// Succeed without a change if another job has the name or holds the key of --unique
    #[arg(long)]
    pub(super) if_absent: bool,
    /// Wait for the end of the planned run and exit with its exit code, as run --wait does
    #[arg(long, conflicts_with = "stdin")]
    pub(super) wait: bool,
    /// Wait at most this long, then exit with 124; the job stays after that. --timeout limits the
    /// attempts of the job, not this wait
    #[arg(long, value_name = "DURATION", requires = "wait")]
    pub(super) wait_timeout: Option<String>,
}

impl AddArgs {
    /// Returns true if the jobs are the lines of standard input.
    pub(crate) fn reads_lines(&self) -> bool {
        self.stdin
    }

    /// Fails if the value of a flag is `@FILE`.
    pub(super) fn refuse_files(&self) -> Result<(), CliFailure> {
        let mut texts = self
            .keys
            .all()
            .filter(|(flag, _)| matches!(flag.form, ValueForm::Content | ValueForm::Json));
        match texts.find(|(_, text)| text.as_str().is_some_and(|text| text.starts_with('@'))) {
            Some((flag, _)) => Err(CliFailure::Invalid(format!(
                "--{}: found @FILE in a request, wanted the content of the file",
                flag.name
            ))),
            None => Ok(()),
        }
    }
}
