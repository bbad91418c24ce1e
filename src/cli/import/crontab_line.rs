//! A line of a crontab by the rules of crontab(5): a comment, a setting, or times with a command.

use std::fmt;

use super::crontab_field::{CrontabField, FIELDS};
use super::crontab_setting::read_setting;
use super::stdin_split::{CommandParts, split_at_percent};
use schedd_core::domain::job::env_file::is_variable_name;

/// A parsed line.
#[derive(Debug)]
pub(super) enum CrontabLine {
    /// A line without text.
    Blank,
    /// A comment, with its `#`.
    Comment(String),
    /// A variable that holds for the lines below.
    Setting(String, String),
    /// Times with a command.
    Entry(CrontabEntry),
    /// A line that cron does not run, or that has no equal in a jobs file. The text is the reason.
    Refused(String),
}

/// Times with a command.
#[derive(Debug)]
pub(super) struct CrontabEntry {
    /// The five fields. `None` for `@reboot`.
    pub(super) fields: Option<Box<[CrontabField; 5]>>,
    /// The times in the form of a `cron` expression.
    pub(super) cron: String,
    /// The user column of a system crontab.
    pub(super) user: Option<String>,
    pub(super) command: CommandParts,
    /// True if the minute has a `-` before it, by which some crons do not log the run.
    pub(super) is_unlogged: bool,
}

/// The crontab and the number of a line, shown as `CRONTAB:NUMBER`.
#[derive(Debug, Clone)]
pub(super) struct LinePlace {
    pub(super) crontab: String,
    pub(super) number: usize,
}

impl fmt::Display for LinePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.crontab, self.number)
    }
}

/// The presence of a column with the user between the times and the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserColumn {
    Present,
    Absent,
}

/// The words in place of five fields, and what they mean.
const WORDS: [(&str, &str); 8] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@every_minute", "* * * * *"),
];

/// Parses a line, without the newline at its end.
pub(super) fn read_line(line: &str, column: UserColumn) -> CrontabLine {
    let text = line.trim_start_matches([' ', '\t']);
    if text.is_empty() {
        return CrontabLine::Blank;
    }
    if text.starts_with('#') {
        return CrontabLine::Comment(text.trim_end().to_owned());
    }
    if let Some((name, value)) = read_setting(text) {
        return CrontabLine::Setting(name, value);
    }
    match read_entry(text, column) {
        Ok(entry) => CrontabLine::Entry(entry),
        Err(why) => CrontabLine::Refused(if begins_like_a_setting(text) {
            "the setting has a quote without its end or a text behind its end, so cron refuses the line".to_owned()
        } else {
            why
        }),
    }
}

/// Returns true if a name and a quoted value begin the line.
fn begins_like_a_setting(text: &str) -> bool {
    let quoted = text.split_once('=').map(|(name, value)| (name.trim(), value.trim_start()));
    quoted.is_some_and(|(name, value)| is_variable_name(name) && value.starts_with(['"', '\'']))
}

fn read_entry(text: &str, column: UserColumn) -> Result<CrontabEntry, String> {
    let mut rest = text;
    let unlogged = rest.strip_prefix('-').filter(|rest| !rest.starts_with('@'));
    rest = unlogged.unwrap_or(rest);
    let (fields, cron) = if rest.starts_with('@') {
        let word = next_word(&mut rest).unwrap_or_default();
        if word.eq_ignore_ascii_case("@reboot") {
            (None, "@reboot".to_owned())
        } else {
            let known = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
            let (known, meaning) = known.ok_or_else(|| format!("{word:?} is not known to cron"))?;
            let cron = if *known == "@every_minute" { *meaning } else { *known };
            (Some(Box::new(read_fields(&mut { *meaning })?)), cron.to_owned())
        }
    } else {
        let fields = read_fields(&mut rest)?;
        let cron = fields.each_ref().map(CrontabField::written).join(" ");
        (Some(Box::new(fields)), cron)
    };
    let user = match column {
        UserColumn::Absent => None,
        UserColumn::Present => {
            let user = next_word(&mut rest).ok_or("the line has no user and no command")?;
            Some(user.to_owned())
        }
    };
    if column == UserColumn::Absent && rest.split_ascii_whitespace().next() == Some("root") {
        return Err(
            "the command begins with the word root, as in a system crontab: give --user-column"
                .to_owned(),
        );
    }
    let command = split_at_percent(rest)?;
    if command.line.trim().is_empty() {
        return Err("the line has no command".to_owned());
    }
    Ok(CrontabEntry { fields, cron, user, command, is_unlogged: unlogged.is_some() })
}

fn read_fields(rest: &mut &str) -> Result<[CrontabField; 5], String> {
    let mut fields = Vec::new();
    for rules in &FIELDS {
        let name = rules.name;
        let word = next_word(rest).ok_or_else(|| format!("the line ends before its {name}"))?;
        fields.push(rules.read(word)?);
    }
    fields.try_into().map_err(|_| "the line has no five fields".to_owned())
}

/// Takes the next word, and the blanks behind it, from `rest`.
fn next_word<'t>(rest: &mut &'t str) -> Option<&'t str> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let text = rest.trim_start_matches(BLANKS);
    let (word, behind) = text.split_at(text.find(BLANKS).unwrap_or(text.len()));
    *rest = behind.trim_start_matches(BLANKS);
    (!word.is_empty()).then_some(word)
}
