//! Cron expressions: the crontab(5) language, with leading seconds and trailing years as the only additions.
//!
//! Invariant: an expression that was read has at least one occurrence before 2100, and what it means is what Debian's
//! crontab(5) and cron(8) say. The `cron` crate is the calendar engine behind `plan`; its own dialect stays behind it.

mod field;
#[cfg(test)]
mod oracle;
mod plan;
mod search;
mod stretch;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use self::field::{Fault, Piece};
use self::plan::Plan;
use super::zone::Zone;

pub(in crate::domain) use self::search::{Wall, first_from};

/// The longest expression, in bytes.
pub const LONGEST_EXPRESSION: usize = 1_000;

/// A checked cron expression. Cheap to clone; two are equal when their texts are.
#[derive(Clone)]
pub struct CronExpr {
    text: Arc<str>,
    plan: Arc<Plan>,
}

/// Why a text is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cron {text:?}: {problem}")]
pub struct CronError {
    /// The expression, cut when it is long.
    pub text: String,
    /// What is wrong, at which character (counted from 1), and what was wanted.
    pub problem: String,
    /// The byte of the expression at which the fault begins; its length when something is missing at the end.
    pub offset: usize,
}

impl CronExpr {
    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first occurrence in `zone` at or after the second `from`.
    pub(in crate::domain) fn first_from(&self, zone: &Zone, from: i64) -> Option<i64> {
        search::first_from(&*self.plan, zone, from)
    }
}

impl FromStr for CronExpr {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        match read(text) {
            Ok(plan) => Ok(Self { text: Arc::from(text), plan: Arc::new(plan) }),
            Err(Fault { offset, problem }) => Err(CronError { text: cut(text), problem, offset }),
        }
    }
}

impl PartialEq for CronExpr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronExpr {}

impl fmt::Debug for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronExpr").field(&self.text).finish()
    }
}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn read(text: &str) -> Result<Plan, Fault> {
    if text.len() > LONGEST_EXPRESSION {
        let problem = format!("{} bytes found, wanted at most {LONGEST_EXPRESSION}", text.len());
        return Err(Fault { offset: LONGEST_EXPRESSION, problem });
    }
    let stranger = text.char_indices().find(|(_, c)| !c.is_ascii_graphic() && !c.is_ascii_whitespace());
    if let Some((offset, stranger)) = stranger {
        let at = text.chars().take_while(|c| *c != stranger).count() + 1;
        let problem = format!("{stranger:?} at character {at} is not understood, wanted digits, names and * , - /");
        return Err(Fault { offset, problem });
    }
    let fields = fields_of(text);
    match fields.as_slice() {
        [] => Err(Fault { offset: text.len(), problem: "is empty, wanted 5 fields as in \"30 2 * * *\"".to_owned() }),
        [word, rest @ ..] if word.text.starts_with('@') => read_macro(*word, rest),
        fields => Plan::read(fields),
    }
}

fn fields_of(text: &str) -> Vec<Piece<'_>> {
    let mut fields = Vec::new();
    let mut rest = Piece { text, offset: 0 };
    loop {
        let trimmed = rest.text.trim_ascii_start();
        let offset = rest.offset + (rest.text.len() - trimmed.len());
        if trimmed.is_empty() {
            return fields;
        }
        let end = trimmed.find(|c: char| c.is_ascii_whitespace()).unwrap_or(trimmed.len());
        let (field, after) = trimmed.split_at(end);
        fields.push(Piece { text: field, offset });
        rest = Piece { text: after, offset: offset + end };
    }
}

fn read_macro(word: Piece<'_>, rest: &[Piece<'_>]) -> Result<Plan, Fault> {
    const KNOWN: &str = "wanted @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually";
    let (offset, at) = (word.offset, word.position());
    let refuse = |offset: usize, problem: String| Err(Fault { offset, problem });
    let expansion = match word.text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@reboot" => return refuse(offset, format!("@reboot at character {at} is not supported yet, {KNOWN}")),
        "@every" => {
            return refuse(offset, format!("@every at character {at} is not cron, write every = \"5m\" or --every 5m"));
        }
        _ => return refuse(offset, format!("{:?} at character {at} is not a known word, {KNOWN}", word.text)),
    };
    if let Some(extra) = rest.first() {
        let (text, at) = (extra.text, extra.position());
        return refuse(extra.offset, format!("{text:?} at character {at} follows {}, wanted nothing after it", word.text));
    }
    Plan::read(&fields_of(expansion))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
