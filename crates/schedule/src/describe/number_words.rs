//! English texts for numbers and lists.

/// The names of the weekdays in the order of cron: Sunday is 0.
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The minimum number of evenly spaced values that are described as a step. Fewer values are
/// listed individually.
const STEPS: usize = 4;
/// The minimum number of adjacent values that are described as a range. Fewer values are listed
/// individually.
const RUN: usize = 3;

/// Returns the ordinal of `number`: `1st`, `2nd`, `3rd`, `11th` and so on.
pub(super) fn ordinal(number: u16) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Describes the day that is `before` days before the last day of a month. Examples are `the last
/// day` and `the day 2 days before the last day`.
pub(super) fn day_from_end(before: u16) -> String {
    match before {
        0 => "the last day".to_owned(),
        1 => "the day before the last day".to_owned(),
        _ => format!("the day {before} days before the last day"),
    }
}

/// Describes days counted from the end, where 1 is the last day, for example `the last 3 days`.
/// `values` are in rising order.
pub(super) fn days_from_end(values: &[u16]) -> Vec<String> {
    let report = |(first, last): (u16, u16)| match (first, last) {
        (1, last) if last > 1 => vec![format!("the last {last} days")],
        (first, last) => (first..=last).map(|day| day_from_end(day - 1)).collect(),
    };
    runs(values).into_iter().flat_map(report).collect()
}

/// Returns the ordinal of `number`, which counts from the end if `number` is negative: `2nd`,
/// `last`, `2nd last`.
pub(super) fn place(number: i64) -> String {
    let nth = u16::try_from(number.unsigned_abs()).map_or_else(|_| number.to_string(), ordinal);
    match number {
        -1 => "last".to_owned(),
        ..-1 => format!("{nth} last"),
        _ => nth,
    }
}

/// Joins the items as `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the distance between adjacent values. Returns `None` if the distances differ or if there
/// are fewer than two values.
pub(super) fn step_of(values: &[u16]) -> Option<u16> {
    let step = values.get(1)? - values.first()?;
    values
        .windows(2)
        .all(|pair| matches!(pair, [earlier, later] if later - earlier == step))
        .then_some(step)
}

/// Returns the first and the last value of each sequence of consecutive numbers in `values`.
pub(super) fn runs(values: &[u16]) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *value => *last = *value,
            _ => runs.push((*value, *value)),
        }
    }
    runs
}

/// Describes the values with their unit, for example `minute 5`, `minutes 1 to 5 and 10`, or
/// `every 7th minute from 0 to 56`.
pub(super) fn counted(values: &[u16], unit: &str) -> String {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return String::new() };
    if values.len() >= STEPS
        && let Some(step) = step_of(values).filter(|step| *step > 1)
    {
        return format!("every {nth} {unit} from {first} to {last}", nth = ordinal(step));
    }
    if values.len() == 1 {
        return format!("{unit} {first}");
    }
    format!("{unit}s {}", list(&stretches(values, u16::to_string)))
}

/// Describes each sequence of consecutive values as `1 to 5`, and lists the other values. `name`
/// returns the text for a value.
pub(super) fn stretches(values: &[u16], name: impl Fn(&u16) -> String) -> Vec<String> {
    let report = |(first, last): (u16, u16)| {
        if usize::from(last - first) + 1 >= RUN {
            vec![format!("{} to {}", name(&first), name(&last))]
        } else {
            (first..=last).map(|value| name(&value)).collect()
        }
    };
    runs(values).into_iter().flat_map(report).collect()
}

/// Returns the first and the last of `values` if they form a single range, which may wrap from
/// `max` to `min`. Returns `None` for values with gaps, for too few values, and if every value is
/// selected.
pub(super) fn round_run(values: &[u16], min: u16, max: u16) -> Option<(u16, u16)> {
    let count = usize::from(max - min) + 1;
    match *runs(values).as_slice() {
        _ if values.len() < RUN || values.len() >= count => None,
        [run] => Some(run),
        [(low, end), (start, high)] if low == min && high == max => Some((start, end)),
        _ => None,
    }
}
