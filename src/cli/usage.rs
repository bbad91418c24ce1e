//! The help texts and the errors of usage that the parser of the command line reports.
//!
//! Invariant: a usage error is one line that names the help to read.

use std::error::Error;
use std::io::Write as _;
use std::num::ParseIntError;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::add::ProcessorsError;
use super::failure::CliFailure;
use super::render::one_line;
use super::verbs::CliArgs;
use schedd_schedule::schedule_form::Schedule;

/// Prints a help text, or a usage error as one line. Returns the exit code of the process.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A failed write needs no report, because then the reader is gone.
            let _ = error.print();
        }
        _ => {
            let verb = named_verb();
            if let Some(line) = verb.as_deref().and_then(refused_expression) {
                print(&line);
                return ExitCode::from(2);
            }
            let line = unknown_verb(error).unwrap_or_else(|| usage_line(error, verb.as_deref()));
            // clap does not name the most common mistakes with `add`. It reports only that a word
            // is missing or unexpected.
            let hint = match error.kind() {
                _ if !line.contains("schedctl add") => "",
                ErrorKind::UnknownArgument if !line.contains("argument '-") => {
                    "; a command goes after --"
                }
                ErrorKind::MissingRequiredArgument if line.contains("COMMAND") => {
                    "; a command goes after --, as in schedctl add --in 10m -- echo hello"
                }
                _ => "",
            };
            print(&format!("{line}{hint}"));
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Returns a usage error as one line that names the help to read. `verb` is the verb of the command
/// line, if it is known.
pub(crate) fn usage_line(error: &clap::Error, verb: Option<&str>) -> String {
    reworded(error, verb).unwrap_or_else(|| condensed(&error.to_string(), verb))
}

/// Returns the words of the command line after the name of the program. Bytes that are not UTF-8 are
/// replaced.
fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

/// Returns a usage error as one line about the argument that is at fault: `--note: found X, wanted Y`.
/// The line does not point to `--help`. A value without a flag, such as `<JOB>`, is named in lower case. Returns
/// `None` if no single argument is at fault.
pub(crate) fn argument_fault(error: &clap::Error, verb: Option<&str>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let name = || {
        let name = flag_of(text(ContextKind::InvalidArg)?);
        Some(if name.starts_with('-') { name.to_owned() } else { name.to_ascii_lowercase() })
    };
    let fault = match (error.kind(), fault_of(error, verb)) {
        (_, Some(fault)) => fault,
        (ErrorKind::ValueValidation, None) => format!("{}: {}", name()?, error.source()?),
        (ErrorKind::InvalidValue, None) if text(ContextKind::InvalidValue) == Some("") => {
            format!("{}: found an empty text", name()?)
        }
        _ => return None,
    };
    Some(one_line(&fault))
}

/// Prints a usage error: as a line, or as a JSON object if the command line has `--json`.
fn print(line: &str) {
    let is_json = words().take_while(|word| word != "--").any(|word| word == "--json");
    let text = if is_json {
        CliFailure::Invalid(line.to_owned()).json().to_string()
    } else {
        format!("schedctl: {line}")
    };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The verbs of other programs for what schedctl does, each with the command to type.
///
/// The verbs are suggested, but not accepted: one name for each verb keeps scripts readable.
const OTHER_VERBS: &[(&[&str], &str)] = &[
    (&["rm", "delete", "del", "remove", "unschedule", "drop"], "schedctl cancel JOB"),
    (&["ls", "jobs", "ll", "dir", "crontab"], "schedctl list"),
    (&["ps", "running", "active"], "schedctl top, or schedctl list --state running"),
    (
        &["status", "info", "get", "inspect", "cat"],
        "schedctl show JOB, or schedctl list for all jobs",
    ),
    (&["start", "exec", "execute", "trigger", "fire", "launch", "now"], "schedctl run JOB"),
    (&["stop", "kill", "abort", "terminate"], "schedctl cancel RUN, or schedctl cancel JOB --stop"),
    (&["enable", "unpause", "unsuspend", "continue", "unhold"], "schedctl resume JOB"),
    (&["disable", "suspend", "hold", "mask"], "schedctl pause JOB"),
    (&["tail", "follow", "watch"], "schedctl logs JOB -f"),
    (&["log", "output", "journal", "stdout"], "schedctl logs JOB"),
    (&["runs", "executions", "past", "last"], "schedctl history JOB"),
    (
        &["create", "new", "schedule", "submit", "enqueue", "at", "apply-async", "push"],
        "schedctl add",
    ),
    (
        &["edit", "update", "modify", "set"],
        "schedctl add --replace --name JOB, or schedctl apply FILE",
    ),
    (&["validate", "lint", "verify", "test"], "schedctl check FILE"),
    (&["reload", "load", "sync"], "schedctl apply FILE, or systemctl reload schedd"),
    (&["why", "reason"], "schedctl explain JOB"),
    (&["upcoming", "when", "list-timers", "preview"], "schedctl next JOB"),
    (&["dead", "failed", "failures"], "schedctl history --dead"),
    (&["requeue", "redo", "replay", "repeat"], "schedctl retry RUN, or schedctl rerun RUN"),
    (&["workers", "members", "cluster", "servers"], "schedctl nodes"),
    (&["losses"], "schedctl data-loss"),
    (&["health", "ping", "fsck"], "schedctl doctor"),
    (&["version"], "schedctl --version"),
];

/// Returns the message for an unknown verb that other programs have. Returns `None` for any other
/// error.
fn unknown_verb(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // An unknown verb below another verb, such as `queue rm`, is not meant.
    let command = CliArgs::command();
    let is_first = words()
        .take_while(|word| word != found)
        .all(|word| command.find_subcommand(word).is_none());
    let (_, meant) =
        OTHER_VERBS.iter().find(|(words, _)| is_first && words.contains(&found.as_str()))?;
    Some(format!("unknown verb {found:?}, wanted {meant}; see schedctl --help"))
}

/// Returns the error in a cron expression that begins with `-` and was therefore taken as a flag.
/// Returns `None` if the command line has no such expression, or if `verb` takes no expression.
fn refused_expression(verb: &str) -> Option<String> {
    let takes_one = matches!(verb, "next" | "describe");
    let is_expression = |word: &String| word.starts_with('-') && word.contains(char::is_whitespace);
    let word = words().find(|word| takes_one && is_expression(word))?;
    Schedule::of_cron(&word).err().map(|error| error.to_string())
}

/// Returns the verb on the command line, even if other arguments there are wrong.
fn named_verb() -> Option<String> {
    let command = CliArgs::command();
    words().find(|word| command.find_subcommand(word).is_some())
}

/// Returns a usage error in the form `SUBJECT: found X, wanted Y; see schedctl add --help`. Returns
/// `None` if clap's own text of the error is clear enough.
fn reworded(error: &clap::Error, verb: Option<&str>) -> Option<String> {
    let of = verb.map(|verb| format!(" {verb}")).unwrap_or_default();
    Some(format!("{}; see schedctl{of} --help", one_line(&fault_of(error, verb)?)))
}

/// Returns a usage error in the form `SUBJECT: found X, wanted Y`. Returns `None` if clap's own
/// text of the error is clear enough.
fn fault_of(error: &clap::Error, verb: Option<&str>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let list = |kind| match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.as_slice(),
        _ => &[],
    };
    Some(match error.kind() {
        ErrorKind::ValueValidation
            if error.source().is_some_and(<dyn Error>::is::<ParseIntError>) =>
        {
            let flag = flag_of(text(ContextKind::InvalidArg)?);
            format!("{flag}: found {:?}, wanted a whole number", text(ContextKind::InvalidValue)?)
        }
        ErrorKind::ValueValidation
            if error.source().is_some_and(<dyn Error>::is::<ProcessorsError>) =>
        {
            let flag = flag_of(text(ContextKind::InvalidArg)?);
            format!("{flag}: found {:?}, {ProcessorsError}", text(ContextKind::InvalidValue)?)
        }
        ErrorKind::ValueValidation if range_of(error).is_some() => {
            let flag = flag_of(text(ContextKind::InvalidArg)?);
            let found = text(ContextKind::InvalidValue)?;
            format!("{flag}: found {found}, wanted {}", range_of(error)?)
        }
        ErrorKind::UnknownArgument => {
            let found = text(ContextKind::InvalidArg)?;
            let (flag, value) = negative_value(words(), found)?;
            format!("{flag}: found {value}, wanted a value that is not negative")
        }
        ErrorKind::InvalidValue if !list(ContextKind::ValidValue).is_empty() => {
            let flag = flag_of(text(ContextKind::InvalidArg)?);
            let found = text(ContextKind::InvalidValue).filter(|value| !value.is_empty())?;
            format!(
                "{flag}: found {found:?}, wanted one of {}",
                list(ContextKind::ValidValue).join(", ")
            )
        }
        ErrorKind::MissingRequiredArgument => {
            let lacks =
                |word: &str| list(ContextKind::InvalidArg).iter().any(|arg| arg.starts_with(word));
            match verb? {
                verb @ ("retry" | "purge") if lacks("<RUN>") => {
                    format!("no run is named, wanted ids of runs, or --dead for all dead letters that match the filters, as in schedctl {verb} --dead --job backup")
                }
                "add" if lacks("--on-late") => {
                    "--must-start-within and --must-finish-within have no effect alone, wanted them together with --on-late LINE or URL".to_owned()
                }
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Returns the range in the error of a number out of range: `1 to 100` for `0 is not in 1..=100`.
fn range_of(error: &clap::Error) -> Option<String> {
    let text = error.source()?.to_string();
    let (_, range) = text.split_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    Some(match most.trim_start_matches('=') {
        "" => format!("at least {least}"),
        most => format!("{least} to {most}"),
    })
}

/// Returns the flag before the word of the command line that clap took for the unknown flag `found`,
/// and this word. Returns `None` if the word is no number or duration below zero.
fn negative_value(words: impl Iterator<Item = String>, found: &str) -> Option<(String, String)> {
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let words: Vec<String> = words.collect();
    let mut pairs = words.windows(2);
    let [flag, value] = pairs.find(|pair| {
        pair[0].starts_with('-') && is_negative(&pair[1]) && pair[1].starts_with(found)
    })?
    else {
        return None;
    };
    Some((flag.clone(), value.clone()))
}

/// Returns the flag or value that a usage text names: `--limit` in `--limit <N>`, `SHELL` in
/// `<SHELL>`.
fn flag_of(usage: &str) -> &str {
    usage.split_whitespace().next().unwrap_or(usage).trim_matches(['<', '>', '[', ']', '.'])
}

/// Joins the paragraphs of a usage error into one line that names the help to read. If the text
/// names no verb, the line names the help of `verb`.
fn condensed(text: &str, verb: Option<&str>) -> String {
    let mut said = String::new();
    let mut usage = "";
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
    {
        if let Some(words) = line.strip_prefix("Usage: ") {
            usage = words;
            break;
        }
        // This tip of clap suggests `--` before a mistyped flag. But the words after `--` are the
        // command of a job.
        if line.starts_with("tip: to pass ") {
            continue;
        }
        let line =
            line.strip_prefix("error: ").or_else(|| line.strip_prefix("tip: ")).unwrap_or(line);
        if !said.is_empty() {
            said.push_str(if said.ends_with(':') { " " } else { "; " });
        }
        said.push_str(line);
    }
    // The words before the first flag or value name the verb whose help applies.
    let words: Vec<&str> = usage
        .split(' ')
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    let words = match (words.as_slice(), verb) {
        ([], None) => "schedctl".to_owned(),
        ([], Some(verb)) => format!("schedctl {verb}"),
        (words, _) => words.join(" "),
    };
    format!("{}; see {words} --help", one_line(&said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_becomes_one_line_that_names_the_help_to_read() {
        let text = "error: unrecognized subcommand 'ad'\n\n  tip: a similar subcommand exists: 'add'\n\nUsage: schedctl [OPTIONS] <COMMAND>\n\nFor more information, try '--help'.\n";
        let line =
            "unrecognized subcommand 'ad'; a similar subcommand exists: 'add'; see schedctl --help";
        assert_eq!(condensed(text, None), line);
        let text = "error: the following required arguments were not provided:\n  <JOB>...\n\nUsage: schedctl pause <JOB>...\n";
        let line = "the following required arguments were not provided: <JOB>...; see schedctl pause --help";
        assert_eq!(condensed(text, None), line);
        let text = "error: a value is required for '--name <NAME>' but none was supplied\n\nFor more information, try '--help'.\n";
        let line = "a value is required for '--name <NAME>' but none was supplied; see schedctl add --help";
        assert_eq!(condensed(text, Some("add")), line);
        let text = "error: unexpected argument '--fo' found\n\n  tip: to pass '--fo' as a value, use '-- --fo'\n\nUsage: schedctl add [OPTIONS] -- COMMAND...\n       schedctl add --stdin\n";
        assert_eq!(
            condensed(text, None),
            "unexpected argument '--fo' found; see schedctl add --help"
        );
    }

    #[test]
    fn the_verbs_of_other_programs_lead_to_verbs_of_schedctl() {
        use clap::Parser as _;
        let command = CliArgs::command();
        let verbs = |line: &str| -> Vec<String> {
            let after = line.split("schedctl ").skip(1);
            after.filter_map(|rest| rest.split([' ', ',']).next()).map(str::to_owned).collect()
        };
        for (words, meant) in OTHER_VERBS {
            for verb in verbs(meant) {
                let is_known = verb == "--version" || command.find_subcommand(&verb).is_some();
                assert!(is_known, "{meant}");
            }
            for word in *words {
                let error = CliArgs::try_parse_from(["schedctl", word]).unwrap_err();
                assert!(unknown_verb(&error).unwrap().contains(meant), "{word}");
            }
        }
        let error = CliArgs::try_parse_from(["schedctl", "lst"]).unwrap_err();
        assert_eq!(unknown_verb(&error), None);
    }

    #[test]
    fn parser_errors_are_reworded_as_subject_found_and_wanted() {
        use clap::Parser as _;
        let reported = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            reworded(&CliArgs::try_parse_from(&words).unwrap_err(), words.get(1).copied())
                .unwrap_or_default()
        };
        assert_eq!(
            reported("schedctl list --limit x"),
            "--limit: found \"x\", wanted a whole number; see schedctl list --help"
        );
        assert_eq!(
            reported("schedctl completions csh"),
            "SHELL: found \"csh\", wanted one of bash, zsh, fish; see schedctl completions --help"
        );
        for verb in ["retry", "purge"] {
            assert!(
                reported(&format!("schedctl {verb}"))
                    .starts_with("no run is named, wanted ids of runs, or --dead")
            );
        }
        assert!(
            reported("schedctl add --must-start-within 1m -- true")
                .contains("wanted them together with --on-late")
        );
        assert_eq!(reported("schedctl pause"), "", "the words of the parser say it");
        assert_eq!(
            reported("schedctl next j -n 0"),
            "--count: found 0, wanted 1 to 100000; see schedctl next --help"
        );
        let value =
            |words: &str, found: &str| negative_value(words.split(' ').map(str::to_owned), found);
        let pair = |flag: &str, value: &str| Some((flag.to_owned(), value.to_owned()));
        assert_eq!(value("schedctl list --limit -1", "-1"), pair("--limit", "-1"));
        assert_eq!(value("schedctl history --since -5m", "-5"), pair("--since", "-5m"));
        assert_eq!(value("schedctl history -5m", "-5"), None);
    }
}
