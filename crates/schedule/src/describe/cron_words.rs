//! The description of a cron expression in English.

use super::field_words::DescribedFields;
use super::{day_words, time_of_day};
use crate::cron::CronExpr;
use crate::names::JobName;

/// Describes a cron expression, for example
/// `every 15 minutes from 09:00 to 17:59, Monday to Friday`. `job` is the name from which each `H`
/// gets its number.
pub(super) fn words(expression: &CronExpr, job: Option<&JobName>) -> String {
    if expression.is_at_boot() {
        return "once on each host after each of its boots".to_owned();
    }
    let shown = |text: &str| {
        DescribedFields::of(text)
            .map_or_else(|| format!("as {text:?} says"), |fields| fields_in_words(&fields))
    };
    match job.filter(|_| expression.is_drawn()) {
        Some(job) => {
            format!(
                "{} (each H is drawn from the name {job})",
                shown(&expression.text_for(job.as_str()))
            )
        }
        None => shown(expression.as_str()),
    }
}

/// Describes the values of the fields of a cron expression.
pub(super) fn fields_in_words(fields: &DescribedFields) -> String {
    let mut words = time_of_day::words(&fields.second, &fields.minute, &fields.hour);
    match day_words::words(&fields.day, &fields.weekday) {
        Some(days) => words = format!("{words}, {days}"),
        // Hours alone could be read as the hours of a single day, so `every day` is added.
        None if !fields.hour.is_whole() => words.push_str(" every day"),
        None => {}
    }
    for more in
        [day_words::months(&fields.month), day_words::years(&fields.year)].into_iter().flatten()
    {
        words = format!("{words}, {more}");
    }
    words
}
