//! The text of a cron expression with numbers in place of each `H`, for display.

use super::cron_field::CronField;
use super::cron_piece::CronPiece;
use super::cron_plan::CronFields;
use super::hash_draw::Draw;

/// Returns the checked expression `text` with the numbers of the job `name` in place of each `H`.
pub(super) fn text_drawn_of(text: &str, name: &str) -> String {
    let words = CronPiece { text, offset: 0 }.words();
    let texts: Vec<String> = words
        .iter()
        .zip(CronFields::rules(words.len()))
        .map(|(word, field)| drawn(*word, field, name))
        .collect();
    texts.join(" ")
}

fn drawn(word: CronPiece<'_>, field: &CronField, name: &str) -> String {
    let item = |item: CronPiece<'_>| {
        let values = item.without_prefix("H").and_then(|_| field.read(item, Draw::Of(name)).ok());
        values.map_or_else(|| item.text.to_owned(), |values| listed(values.set.iter()))
    };
    word.split(',').map(item).collect::<Vec<_>>().join(",")
}

fn listed(values: impl Iterator<Item = u16>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
