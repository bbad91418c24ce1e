//! The text of a log entry: a line for users, a line for programs, or an entry of systemd's
//! journal.
//!
//! Invariant: an entry is always written as one line, or as one entry of the journal, even if its
//! texts contain line breaks. No text in an entry can control a terminal.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::Level;

use super::entry::LogEntry;
use schedd_schedule::time::wording::steers;

/// The name of this program in the journal (`SYSLOG_IDENTIFIER`).
const IDENTIFIER: &str = "schedd";

/// The form in which log entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogForm {
    /// Sentences for a user at a terminal.
    Sentences,
    /// Sentences for a user at a terminal, with the level in colour.
    ColouredSentences,
    /// Lines of pairs: `ts=... level=info msg="..." job=backup`
    KeyValue,
    /// One JSON object a line.
    Json,
    /// The fields of an entry of systemd's journal: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
    Journal,
}

impl LogForm {
    /// Returns the bytes of the entry in this form. JSON and journal entries include the name of
    /// the node once it is known.
    pub(super) fn written(self, entry: &LogEntry, node: Option<&str>) -> Vec<u8> {
        let mut out = String::new();
        // A write to a String cannot fail.
        let _ = match self {
            Self::Sentences | Self::ColouredSentences => sentence(&mut out, entry, self),
            Self::KeyValue => key_value(&mut out, entry),
            Self::Json => json(&mut out, entry, node),
            Self::Journal => journal(&mut out, entry, node),
        };
        out.into_bytes()
    }
}

fn sentence(out: &mut String, entry: &LogEntry, form: LogForm) -> fmt::Result {
    let local = entry.at.to_zoned(jiff::tz::TimeZone::system());
    write!(out, "{} ", local.strftime("%H:%M:%S%.3f"))?;
    let level = entry.level;
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 34,
    };
    match form {
        LogForm::ColouredSentences => write!(out, "\x1b[{colour}m{level:>5}\x1b[0m")?,
        _ => write!(out, "{level:>5}")?,
    }
    write!(out, " {}", escaped(&entry.message))?;
    pairs(out, entry)
}

fn key_value(out: &mut String, entry: &LogEntry) -> fmt::Result {
    write!(
        out,
        "ts={:.3} level={} msg={}",
        entry.at,
        level_word(entry.level),
        Quoted(&entry.message)
    )?;
    pairs(out, entry)
}

fn pairs(out: &mut String, entry: &LogEntry) -> fmt::Result {
    for (name, value) in &entry.facts {
        match value {
            Value::String(text) => write!(out, " {name}={}", Quoted(text))?,
            other => write!(out, " {name}={other}")?,
        }
    }
    out.push('\n');
    Ok(())
}

fn json(out: &mut String, entry: &LogEntry, node: Option<&str>) -> fmt::Result {
    let text = |text: &str| Value::from(text).to_string();
    write!(
        out,
        "{{\"ts\":\"{:.3}\",\"level\":\"{}\",\"message\":{}",
        entry.at,
        level_word(entry.level),
        text(&entry.message)
    )?;
    for (name, value) in with_node(entry, node) {
        let name = match name {
            "run" => "run_id",
            name => name,
        };
        if !["ts", "level", "message"].contains(&name) {
            write!(out, ",{}:{value}", text(name))?;
        }
    }
    out.push_str("}\n");
    Ok(())
}

fn journal(out: &mut String, entry: &LogEntry, node: Option<&str>) -> fmt::Result {
    let priority = match entry.level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    let message = &entry.message;
    write!(
        out,
        "MESSAGE={}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER={IDENTIFIER}\n",
        escaped(message)
    )?;
    for (name, value) in with_node(entry, node) {
        let name = match name {
            "run" => "RUN_ID".to_owned(),
            name => name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                .collect(),
        };
        // The journal drops an entry with an invalid field name, so such a field is left out.
        let is_name = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_uppercase());
        if is_name && !["MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER"].contains(&name.as_str()) {
            match &value {
                Value::String(text) => writeln!(out, "{name}={}", escaped(text))?,
                other => writeln!(out, "{name}={other}")?,
            }
        }
    }
    Ok(())
}

/// Returns the fields of the entry. If the entry has no field `node`, this field is added with the
/// name of the node.
fn with_node(entry: &LogEntry, node: Option<&str>) -> Vec<(&'static str, Value)> {
    let node = node.filter(|_| !entry.facts.iter().any(|(name, _)| *name == "node"));
    node.map(|node| ("node", Value::from(node)))
        .into_iter()
        .chain(entry.facts.iter().cloned())
        .collect()
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        _ => "trace",
    }
}

/// A value as one word. The value is quoted if it contains a blank, a quote, `=` or a control
/// character.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = !self.0.is_empty()
            && self.0.chars().all(|c| !c.is_whitespace() && !steers(c) && c != '"' && c != '=');
        if is_plain {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", escaped(&self.0.replace('\\', "\\\\").replace('"', "\\\"")))
        }
    }
}

/// Returns `text` with its control characters and text direction characters escaped. So `text`
/// cannot forge a log line or control a terminal.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| if steers(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> LogEntry {
        let at = "2026-11-21T22:49:00.125Z".parse().unwrap();
        let text = "Run \"ended\"\n\u{1b}[31m".to_owned();
        LogEntry { at, ..LogEntry::new(Level::WARN, text) }
            .with("late_ms", 5.into())
            .with("job", "backup".into())
            .with("run", "backup@5".into())
            .with("reason", "a b\nPRIORITY=0".into())
    }

    fn written(form: LogForm) -> String {
        String::from_utf8(form.written(&entry(), Some("n1"))).unwrap()
    }

    #[test]
    fn a_value_never_breaks_its_line() {
        assert_eq!(Quoted("a").to_string(), "a");
        assert_eq!(Quoted("a b").to_string(), "\"a b\"");
        assert_eq!(Quoted("").to_string(), "\"\"");
        assert_eq!(Quoted("a\u{202e}b").to_string(), "\"a\\u{202e}b\"");
        assert_eq!(Quoted("x\ny\"z\x1b").to_string(), "\"x\\ny\\\"z\\u{1b}\"");
    }

    #[test]
    fn a_line_for_people_and_one_of_pairs() {
        let line = "ts=2026-11-21T22:49:00.125Z level=warn msg=\"Run \\\"ended\\\"\\n\\u{1b}[31m\" late_ms=5 job=backup run=backup@5 \
                    reason=\"a b\\nPRIORITY=0\"\n";
        assert_eq!(written(LogForm::KeyValue), line);
        let line = written(LogForm::Sentences);
        assert!(
            line.ends_with("  WARN Run \"ended\"\\n\\u{1b}[31m late_ms=5 job=backup run=backup@5 reason=\"a b\\nPRIORITY=0\"\n"),
            "{line}"
        );
        assert!(written(LogForm::ColouredSentences).contains("\x1b[33m WARN\x1b[0m"));
    }

    #[test]
    fn an_object_has_each_text_as_it_was() {
        let line = written(LogForm::Json);
        let found: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.lines().count(), 1);
        let wanted = serde_json::json!({
            "ts": "2026-11-21T22:49:00.125Z", "level": "warn", "message": "Run \"ended\"\n\u{1b}[31m", "node": "n1",
            "late_ms": 5, "job": "backup", "run_id": "backup@5", "reason": "a b\nPRIORITY=0",
        });
        assert_eq!(found, wanted);
    }

    #[test]
    fn an_entry_of_the_journal_has_a_field_a_line_and_nobody_forges_one() {
        let wanted = "MESSAGE=Run \"ended\"\\n\\u{1b}[31m\nPRIORITY=4\nSYSLOG_IDENTIFIER=schedd\nNODE=n1\nLATE_MS=5\nJOB=backup\n\
                      RUN_ID=backup@5\nREASON=a b\\nPRIORITY=0\n";
        assert_eq!(written(LogForm::Journal), wanted);
    }
}
