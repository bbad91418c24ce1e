//! The text of an expression with numbers in place of each `H`, for display.

use super::draw::Draw;
use super::field::Field;
use super::piece::Piece;
use super::plan::Fields;

/// Returns `text`, a checked expression, with the numbers of the job `name` in place of each `H`.
pub(super) fn text_drawn_of(text: &str, name: &str) -> String {
    let words = Piece { text, offset: 0 }.words();
    let told: Vec<String> = words.iter().zip(Fields::rules(words.len())).map(|(word, field)| drawn(*word, field, name)).collect();
    told.join(" ")
}

fn drawn(word: Piece<'_>, field: &Field, name: &str) -> String {
    let item = |item: Piece<'_>| {
        let values = item.without_prefix("H").and_then(|_| field.read(item, Draw::Of(name)).ok());
        values.map_or_else(|| item.text.to_owned(), |values| listed(values.set.iter()))
    };
    word.split(',').map(item).collect::<Vec<_>>().join(",")
}

fn listed(values: impl Iterator<Item = u16>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}
