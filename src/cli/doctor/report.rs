//! The report of `doctor`, in groups of lines. Each line has a level, the name of the check and the
//! result.

use serde_json::{Map, Value, json};

use crate::cli::render::{Colour, Console, one_line};
use schedd_store::{CheckLevel, ServerCheck};

/// The width in characters of the column with the check's name.
const WIDTH: usize = 14;

/// The results of all checks of `doctor`, by group.
#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    groups: Vec<(&'static str, Vec<ServerCheck>)>,
}

impl DoctorReport {
    pub(super) fn add(&mut self, group: &'static str, checks: Vec<ServerCheck>) {
        self.groups.push((group, checks));
    }

    pub(super) fn has_failed(&self) -> bool {
        self.groups
            .iter()
            .flat_map(|(_, checks)| checks)
            .any(|check| check.level == CheckLevel::Fail)
    }

    /// Returns a JSON object with a field for each group; the field contains an array of the
    /// group's lines.
    pub(super) fn json(&self) -> Value {
        let groups = self.groups.iter();
        let fields: Map<String, Value> = groups
            .map(|(group, checks)| ((*group).to_owned(), checks.iter().map(check_json).collect()))
            .collect();
        Value::Object(fields)
    }

    /// Prints the lines of all groups. `more` gets the name of each group and prints details below
    /// the lines of that group.
    pub(super) fn text(&self, console: &mut Console, more: impl Fn(&str, &mut Console)) {
        for (group, checks) in &self.groups {
            let title = console.paint(group, Colour::Bold);
            console.line(&title);
            for check in checks {
                line(check.level, &check.name, &check.text, console);
            }
            more(group, console);
        }
    }
}

pub(super) fn check_json(check: &ServerCheck) -> Value {
    json!({"name": check.name, "level": check.level.as_str(), "text": check.text})
}

/// Prints one line of the report.
pub(super) fn line(level: CheckLevel, name: &str, text: &str, console: &mut Console) {
    let colour = match level {
        CheckLevel::Ok => Colour::Green,
        CheckLevel::Note => Colour::Dim,
        CheckLevel::Warn => Colour::Yellow,
        CheckLevel::Fail => Colour::Red,
    };
    let word = console.paint(&format!("{:<4}", level.as_str()), colour);
    console.line(format!("  {word}  {:<WIDTH$}  {}", one_line(name), one_line(text)).trim_end());
}
