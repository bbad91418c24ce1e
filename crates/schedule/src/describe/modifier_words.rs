//! The descriptions of the modifiers of a schedule in English, one line for each modifier.

use super::number_words::list;
use crate::day_sets::DaySet;
use crate::schedule_modifiers::Shape;
use crate::time::duration::format_duration;
use crate::time::wording::moment;
use crate::time::zone::Zone;

/// The maximum number of days that a description lists individually.
const SHOWN_DAYS: usize = 10;

/// Returns lines such as `never on 2026-12-24` or `delayed by up to 30s, by a random time for each
/// run`. There is no line for `anchor`, because the description of the schedule names this instant.
pub fn shape_in_words(shape: &Shape, zone: &Zone) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(start) = shape.start {
        lines.push(format!("not before {}", moment(start, zone)));
    }
    if let Some(end) = shape.end {
        lines.push(format!("not after {}", moment(end, zone)));
    }
    match shape.max_runs {
        Some(1) => lines.push("at most 1 run".to_owned()),
        Some(most) => lines.push(format!("at most {most} runs")),
        None => {}
    }
    if let Some(days) = &shape.only_on {
        lines.push(format!("only on {}", days_in_words(days)));
    }
    if !shape.exclude.is_empty() {
        lines.push(format!("never on {}", days_in_words(&shape.exclude)));
    }
    if !shape.splay.is_zero() {
        let splay = format_duration(shape.splay);
        lines.push(format!("delayed by up to {splay}, by the same time for all runs of the job"));
    }
    if !shape.jitter.is_zero() {
        lines.push(format!(
            "delayed by up to {}, by a random time for each run",
            format_duration(shape.jitter)
        ));
    }
    if let Some(late) = shape.skip_if_late {
        lines.push(format!(
            "skipped if the run would start more than {} late",
            format_duration(late)
        ));
    }
    lines
}

fn days_in_words(days: &DaySet) -> String {
    let mut texts = days.texts();
    let more = texts.len().saturating_sub(SHOWN_DAYS);
    texts.truncate(SHOWN_DAYS);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    list(&texts.iter().map(|text| text.replace("..", " to ")).collect::<Vec<_>>())
}
