//! The descriptions of the day, month, weekday and year fields in English, with crontab's rule for
//! the two day fields.

use super::field_words::DescribedField;
use super::number_words::{WEEKDAYS, counted, list, round_run, stretches};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Describes the day of month and weekday fields, for example `on day 1 of the month or on Mondays
/// (either is enough)`. Returns `None` if the two fields together select every day.
pub(super) fn words(day: &DescribedField, weekday: &DescribedField) -> Option<String> {
    match (day.is_whole(), weekday.is_whole()) {
        (true, true) => None,
        // A day must match only one of the two fields, so a field with every day makes every day
        // match.
        (true, false) | (false, true) if !day.is_starred && !weekday.is_starred => None,
        (true, false) => Some(of_week(weekday)),
        (false, true) => Some(of_month(day)),
        (false, false) => {
            let weekdays = of_week(weekday);
            let on = if weekdays.starts_with("on ") { "" } else { "on " };
            Some(if day.is_starred || weekday.is_starred {
                format!("{days}, but only {on}{weekdays}", days = of_month(day))
            } else {
                format!("{days} or {on}{weekdays} (either is enough)", days = of_month(day))
            })
        }
    }
}

/// Describes the days of a month, for example `on days 1 and 15 of the month`.
fn of_month(day: &DescribedField) -> String {
    let values: Vec<u16> = day.values.iter().copied().collect();
    let mut parts = if values.is_empty() { Vec::new() } else { vec![counted(&values, "day")] };
    let (whole, open): (Vec<String>, Vec<String>) =
        day.others.iter().cloned().partition(|other| other.contains("month"));
    parts.extend(open);
    let of_each =
        if parts.is_empty() { None } else { Some(format!("{} of the month", list(&parts))) };
    format!("on {}", list(&of_each.into_iter().chain(whole).collect::<Vec<_>>()))
}

/// Describes the weekdays, for example `Monday to Friday`, or `on Mondays and on the 2nd Friday of
/// the month`.
fn of_week(weekday: &DescribedField) -> String {
    let name = |day: u16| WEEKDAYS.get(usize::from(day)).copied().unwrap_or_default();
    let values: Vec<u16> = weekday.values.iter().copied().collect();
    let mut parts = Vec::new();
    if let Some((first, last)) = round_run(&values, 0, 6) {
        parts.push(format!("{} to {}", name(first), name(last)));
    } else if !values.is_empty() {
        let from_monday = |day: &u16| (day + 6) % 7;
        let mut ordered = values;
        ordered.sort_by_key(from_monday);
        parts.push(format!(
            "on {}",
            list(&ordered.into_iter().map(|day| format!("{}s", name(day))).collect::<Vec<_>>())
        ));
    }
    if !weekday.others.is_empty() {
        let are_places = weekday.others.iter().any(|other| !other.contains("(H:"));
        let of = if are_places { format!(" of the {}", weekday.of) } else { String::new() };
        parts.push(format!("on {}{of}", list(&weekday.others)));
    }
    list(&parts)
}

/// Describes the months, for example `in January and July`. Returns `None` if the field selects
/// every month.
pub(super) fn months(month: &DescribedField) -> Option<String> {
    if month.is_whole() {
        return None;
    }
    let name = |month: &u16| {
        MONTHS.get(usize::from(*month).wrapping_sub(1)).copied().unwrap_or_default().to_owned()
    };
    let values: Vec<u16> = month.values.iter().copied().collect();
    let mut parts = match round_run(&values, 1, 12) {
        Some((first, last)) => vec![format!("{} to {}", name(&first), name(&last))],
        None => stretches(&values, name),
    };
    parts.extend(month.others.iter().cloned());
    Some(format!("in {}", list(&parts)))
}

/// Describes the years, for example `in 2027 and 2028`. Returns `None` if the field selects every
/// year.
pub(super) fn years(year: &DescribedField) -> Option<String> {
    if year.is_whole() {
        return None;
    }
    let values: Vec<u16> = year.values.iter().copied().collect();
    let phrase = counted(&values, "year");
    if phrase.starts_with("every ") && year.others.is_empty() {
        return Some(phrase);
    }
    let mut parts = stretches(&values, u16::to_string);
    parts.extend(year.others.iter().cloned());
    Some(format!("in {}", list(&parts)))
}
