//! The manual pages: the text of `--help` as pages of commands, and the pages of `docs/` on `jobs.toml` as a page of a file.
//!
//! Invariant: no page says anything that neither `--help` nor `docs/` says.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::markdown;

const OPERATIONS: &str = include_str!("../../docs/operations.md");
const SECURITY: &str = include_str!("../../docs/security.md");
/// The page of `docs/` that describes the JSON documents of schedctl, whole.
const JSON: &str = include_str!("../../docs/json.md");
/// The pages of `docs/` that describe the file, whole.
const OF_FILE: [&str; 5] = [
    include_str!("../../docs/jobs-toml.md"),
    include_str!("../../docs/schedules.md"),
    include_str!("../../docs/concurrency.md"),
    include_str!("../../docs/notifications.md"),
    include_str!("../../docs/running-jobs.md"),
];
/// Sections of other pages that describe the file too.
const SECTIONS_OF_FILE: [(&str, &str); 3] =
    [(SECURITY, "Secrets"), (OPERATIONS, "Logs"), (OPERATIONS, "What is kept, and for how long")];
/// The sections that describe the daemon, each with its heading in a manual page.
const OF_DAEMON: [(&str, &str); 5] = [
    ("systemd", "systemd"),
    ("Environment", "Environment"),
    ("Files", "Files"),
    ("Signals", "Signals"),
    ("Exit codes", "Exit status"),
];
/// Files to copy, as the examples of the file.
const EXAMPLES: [&str; 2] =
    [include_str!("../../examples/web.toml"), include_str!("../../examples/backups.toml")];
/// The addresses of the pages and sections that the page of the file has.
const LINKED_IN_FILE: [&str; 8] = [
    "jobs-toml.md",
    "schedules.md",
    "concurrency.md",
    "notifications.md",
    "running-jobs.md",
    "security.md#secrets",
    "operations.md#logs",
    "operations.md#what-is-kept-and-for-how-long",
];

/// All pages: the names of their files, and their texts.
pub(crate) fn all() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let daemon = schedd_programs::daemon::command();
    let operations = with_places(OPERATIONS, &[]);
    let extra: String =
        OF_DAEMON.map(|(title, heading)| section(&operations, title, heading)).concat();
    pages.push(("schedd.8".to_owned(), of_command(daemon, "8", &extra)));
    let mut ctl = schedd_programs::cli::command().disable_help_subcommand(true);
    ctl.build();
    let json = markdown::page(&with_places(JSON, &[]));
    add_commands(&ctl, &json.expect("a page of docs/ begins with a heading"), &mut pages);
    pages.push(("jobs.toml.5".to_owned(), of_file()));
    pages
}

/// Adds the page of a command, which ends with `extra`, and the pages of its verbs.
fn add_commands(command: &Command, extra: &str, pages: &mut Vec<(String, String)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((format!("{name}.1"), of_command(command.clone(), "1", extra)));
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add_commands(verb, "", pages);
    }
}

/// The page of a command; what stands below its options in `--help` comes line by line, as it stands there.
fn of_command(command: Command, section: &str, extra: &str) -> String {
    let below =
        command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let (has_options, has_verbs) =
        (command.get_arguments().next().is_some(), command.has_subcommands());
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = Man::new(command).section(section);
    let mut page = title(&name, section).into_bytes();
    man.render_name_section(&mut page).expect("written to memory");
    man.render_synopsis_section(&mut page).expect("written to memory");
    man.render_description_section(&mut page).expect("written to memory");
    if has_options {
        man.render_options_section(&mut page).expect("written to memory");
    }
    if has_verbs {
        man.render_subcommands_section(&mut page).expect("written to memory");
    }
    let mut page = String::from_utf8(page).expect("pages are text");
    for block in below.unwrap_or_default().split("\n\n").filter(|block| !block.trim().is_empty()) {
        page.push_str(&literal(block));
    }
    page.push_str(extra);
    page.push_str(&see_also());
    page
}

/// Lines as they stand, below a heading of their own if they begin with one.
fn literal(block: &str) -> String {
    let mut roff = Roff::new();
    let mut lines = block.lines().peekable();
    match lines.peek() {
        Some(&("Examples:" | "Example:")) => {
            lines.next();
            roff.control("SH", ["EXAMPLES"]);
        }
        _ => {
            roff.control("SH", ["NOTES"]);
        }
    }
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.render()
}

fn of_file() -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]);
    roff.text([roman("jobs.toml - the jobs schedd runs, and what holds for them")]);
    let mut page = title("jobs.toml", "5") + &roff.render();
    for text in OF_FILE {
        let text = with_places(text, &LINKED_IN_FILE);
        page.push_str(&markdown::page(&text).expect("a page of docs/ begins with a heading"));
    }
    for (text, title) in SECTIONS_OF_FILE {
        page.push_str(&section(&with_places(text, &LINKED_IN_FILE), title, title));
    }
    page.push_str(&literal(&format!("Examples:\n{}", EXAMPLES.join("\n"))));
    page.push_str(&see_also());
    page
}

fn section(text: &str, title: &str, heading: &str) -> String {
    markdown::section(text, title, heading)
        .unwrap_or_else(|| panic!("docs/ has no section {title:?}"))
}

/// Returns a page of `docs/` whose links to other pages name the file, as in `Guarantees
/// (docs/guarantees.md)`. Links to `present` and within the page stay: a reader finds them here.
fn with_places(text: &str, present: &[&str]) -> String {
    let mut parts = text.split("](");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        page.push_str("](");
        let Some((address, rest)) = part.split_once(')') else {
            page.push_str(part);
            continue;
        };
        let file = address.split_once('#').map_or(address, |(file, _)| file);
        let is_elsewhere = !file.is_empty()
            && !file.contains("://")
            && !present.contains(&file)
            && !present.contains(&address);
        page.push_str(address);
        page.push(')');
        if is_elsewhere {
            let place = file.strip_prefix("../").map_or(format!("docs/{file}"), str::to_owned);
            page.extend([" (", &place, ")"]);
        }
        page.push_str(rest);
    }
    page
}

/// The first line, without a date: a page is as new as its version.
fn title(name: &str, section: &str) -> String {
    format!(
        ".TH \"{}\" \"{section}\" \"\" \"schedd {}\" \"schedd\"\n",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION")
    )
}

fn see_also() -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("schedd"),
        roman("(8), "),
        bold("schedctl"),
        roman("(1), "),
        bold("jobs.toml"),
        roman("(5)"),
    ]);
    roff.render()
}
