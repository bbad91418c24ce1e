//! The parser of a cron expression: its fields, its macros such as `@daily`, and the check that the
//! expression has an occurrence.

use std::time::Duration;

use super::cron_error::CronError;
use super::cron_piece::{CronFault, CronPiece};
use super::cron_plan::{CronFields, CronPlan};
use super::cron_search::Wall as _;
use super::hash_draw::Draw;
use crate::time::duration::{format_duration, parse_duration};
use crate::time::wording::end_within;

/// The maximum length of an expression, in bytes.
pub const LONGEST_EXPRESSION: usize = 1_000;

const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
const LONGEST_PERIOD: Duration = Duration::from_secs(3_650 * 86_400);

/// Parses a cron expression and checks that it has an occurrence. Each `H` gets the number for a
/// job with an empty name, because the name of the job is not known yet.
pub(super) fn read(text: &str) -> Result<CronPlan, CronFault> {
    let words = words_of(text)?;
    let plan = plan_of(&words, Draw::Of(""))?;
    if plan.is_at_boot() {
        return Ok(plan);
    }
    let possible = if plan.is_drawn() { plan_of(&words, Draw::Each)? } else { plan };
    if possible.first_local_from(0).is_none() {
        return Err(never(&words));
    }
    if possible.is_drawn() { plan_of(&words, Draw::Of("")) } else { Ok(possible) }
}

/// Returns the fault for an expression without an occurrence. The fault points at the day of month
/// if the expression would have occurrences with `*` in that field, else at the weekday.
fn never(words: &[CronPiece<'_>]) -> CronFault {
    let day = place_of_day(words);
    let any_day: Vec<CronPiece<'_>> = words
        .iter()
        .enumerate()
        .map(|(at, piece)| if at == day { CronPiece { text: "*", ..*piece } } else { *piece })
        .collect();
    let is_by_day =
        plan_of(&any_day, Draw::Each).is_ok_and(|plan| plan.first_local_from(0).is_some());
    let (name, place) = if is_by_day { ("day of month", day) } else { ("weekday", day + 2) };
    let CronPiece { text, offset } =
        words.get(place).copied().unwrap_or(CronPiece { text: "", offset: 0 });
    let at = offset + 1;
    CronFault {
        offset,
        problem: format!(
            "{name} {text} at character {at} matches no day before 2100, wanted a day that exists"
        ),
    }
}

/// Returns the index of the day of month in `words`. The index of the weekday is two higher.
fn place_of_day(words: &[CronPiece<'_>]) -> usize {
    if words.len() > 5 { 3 } else { 2 }
}

/// Returns the day of month and the weekday of the checked expression `text`, as written. Returns
/// `None` for a macro such as `@daily`.
pub(super) fn day_texts(text: &str) -> Option<(&str, &str)> {
    let words = words_of(text).ok()?;
    let day = place_of_day(&words);
    Some((words.get(day)?.text, words.get(day + 2)?.text))
}

/// Returns the values of the fields of a checked expression, or `None` for `@reboot`. The values
/// have no number for an `H`.
pub(crate) fn fields_of(text: &str) -> Option<CronFields> {
    read_fields(&words_of(text).ok()?, Draw::Left).ok().flatten()
}

/// Returns the plan of the cron expression `text`, with the numbers of the job `name` for each `H`.
/// Returns `None` if `text` is not a cron expression.
pub(super) fn plan_drawn_of(text: &str, name: &str) -> Option<CronPlan> {
    plan_of(&words_of(text).ok()?, Draw::Of(name)).ok()
}

/// Returns the period of a text such as `@every 90s`, or `None` if the text does not begin with
/// `@every`. Fails for a period outside 1 s to 10 years.
pub fn period_of(text: &str) -> Option<Result<Duration, CronError>> {
    let word = CronPiece { text, offset: 0 }.words().into_iter().next()?;
    if !word.text.eq_ignore_ascii_case("@every") {
        return None;
    }
    let offset = word.offset + word.text.len();
    let rest = text.get(offset..).unwrap_or_default();
    let offset = offset + (rest.len() - rest.trim_start().len());
    let refuse = |problem: String| Err(CronError::of(text, CronFault { offset, problem }));
    Some(match parse_duration(rest) {
        Ok(period) if (SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&period) => Ok(period),
        Ok(period) => refuse(format!(
            "@every {} is out of range, wanted 1s to 10 years",
            format_duration(period)
        )),
        Err(error) => refuse(format!("@every: {error}")),
    })
}

fn words_of(text: &str) -> Result<Vec<CronPiece<'_>>, CronFault> {
    if text.len() > LONGEST_EXPRESSION {
        let problem =
            format!("the expression has {} bytes, wanted at most {LONGEST_EXPRESSION}", text.len());
        return Err(CronFault { offset: end_within(text, LONGEST_EXPRESSION), problem });
    }
    let stranger =
        text.char_indices().find(|(_, c)| !c.is_ascii_graphic() && !c.is_ascii_whitespace());
    if let Some((offset, stranger)) = stranger {
        let at = text.chars().take_while(|c| *c != stranger).count() + 1;
        let problem = format!(
            "{stranger:?} at character {at} is not allowed, wanted letters of a-z, digits and the signs * , - / # ?"
        );
        return Err(CronFault { offset, problem });
    }
    Ok(CronPiece { text, offset: 0 }.words())
}

fn plan_of(words: &[CronPiece<'_>], draw: Draw<'_>) -> Result<CronPlan, CronFault> {
    read_fields(words, draw)?.map_or_else(|| Ok(CronPlan::at_boot()), CronPlan::of)
}

/// Parses the values of the fields in `words`, or returns `None` for `@reboot`.
fn read_fields(words: &[CronPiece<'_>], draw: Draw<'_>) -> Result<Option<CronFields>, CronFault> {
    match words {
        [] => Err(CronFault {
            offset: 0,
            problem: "the expression is empty, wanted 5 fields as in \"30 2 * * *\"".to_owned(),
        }),
        [word, rest @ ..] if word.text.starts_with('@') => read_macro(*word, rest),
        fields => CronFields::read(fields, draw).map(Some),
    }
}

fn read_macro(
    word: CronPiece<'_>,
    rest: &[CronPiece<'_>],
) -> Result<Option<CronFields>, CronFault> {
    const KNOWN: &str = "wanted @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, @reboot or @every 90s";
    let at = word.position();
    let expansion = match word.text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@reboot" => "",
        "@every" => {
            return Err(word.fault(format!(
                "@every at character {at} is mixed with other schedules, wanted @every alone"
            )));
        }
        _ => {
            return Err(word
                .fault(format!("{:?} at character {at} is not a known word, {KNOWN}", word.text)));
        }
    };
    if let Some(extra) = rest.first() {
        let (text, at) = (extra.text, extra.position());
        return Err(extra.fault(format!(
            "{text:?} at character {at} follows {}, wanted the end of the text",
            word.text
        )));
    }
    if expansion.is_empty() {
        return Ok(None);
    }
    CronFields::read(&CronPiece { text: expansion, offset: 0 }.words(), Draw::Each).map(Some)
}
