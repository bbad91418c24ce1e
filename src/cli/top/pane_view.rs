//! Drawing of one list of `top`: a title line, the columns that fit, and the rows around the
//! selected row.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget};

use super::theme::Theme;
use super::top_lists::{Pane, Row};
use super::top_model::{Model, TopOrder};
use crate::cli::render::Colour;

/// The number of spaces between two columns.
const GAP: usize = 2;
/// The minimum width of the last column. If less space is left, another column is left out.
const NARROWEST: usize = 10;

/// Draws one list into an area of the screen.
pub(super) fn draw_pane(model: &Model, pane: Pane, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    let rows = model.rows(pane);
    let has_cursor = model.pane == pane;
    let width = usize::from(area.width);
    let height = usize::from(area.height.saturating_sub(2));
    let at = model.position(pane).min(rows.len().saturating_sub(1));
    // The selected row stays visible.
    let from = if at < height { 0 } else { at + 1 - height };
    let seen = rows.get(from..rows.len().min(from.saturating_add(height))).unwrap_or_default();
    let fitted = fit(pane.columns(), seen, width);

    let mut lines = vec![title(model, pane, rows.len(), theme, width)];
    let header = fitted.iter().map(|(column, width)| (pane.columns()[*column].0, *width));
    lines.push(Line::styled(text(theme.more(), header), theme.style(Colour::Dim)));
    for (index, row) in seen.iter().enumerate() {
        let cells = fitted
            .iter()
            .map(|(column, width)| (row.cells.get(*column).map_or("", String::as_str), *width));
        let mut style = theme.style(row.colour);
        if model.away.is_some() {
            style = theme.style(Colour::Dim);
        }
        let is_chosen = has_cursor && from + index == at;
        let shown = text(theme.more(), cells);
        // The whole line, not only its text, marks the selection.
        let shown = if is_chosen { format!("{shown:<width$}") } else { shown };
        lines.push(Line::styled(
            shown,
            if is_chosen { style.add_modifier(Modifier::REVERSED) } else { style },
        ));
    }
    Paragraph::new(lines).render(area, buffer);
}

fn title<'a>(model: &Model, pane: Pane, shown: usize, theme: &Theme, width: usize) -> Line<'a> {
    let total = model.total(pane);
    let count =
        if shown as u64 == total { total.to_string() } else { format!("{shown} of {total}") };
    let order = match model.order {
        TopOrder::Time => "",
        TopOrder::Name => ", by name",
        TopOrder::State => ", by state",
    };
    let name = format!("{} {} ({count}{order}) ", pane as usize + 1, pane.title());
    let rest = width.saturating_sub(name.chars().count());
    let line = format!("{name}{}", theme.rule().repeat(rest));
    Line::styled(line, theme.style(if model.pane == pane { Colour::Bold } else { Colour::Dim }))
}

/// Joins cells into one line. Each cell comes with its width; a cell that is too long is cut and
/// ends with `more`.
fn text<'c>(more: &str, cells: impl Iterator<Item = (&'c str, usize)>) -> String {
    let mut line = String::new();
    for (cell, width) in cells {
        let is_whole = cell.chars().count() <= width;
        let cut: String =
            cell.chars().take(if is_whole { width } else { width.saturating_sub(1) }).collect();
        let _ = write!(line, "{:<width$}", if is_whole { cut } else { cut + more });
        line.extend(std::iter::repeat_n(' ', GAP));
    }
    line.trim_end().to_owned()
}

/// Returns the indexes of the columns that fit, each with its width. The last column gets the
/// remaining width.
fn fit(columns: &[(&str, u8)], rows: &[&Row], width: usize) -> Vec<(usize, usize)> {
    let natural = |column: usize| {
        let cells =
            rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(columns[column].0.len())
    };
    let mut fitted: Vec<(usize, usize)> =
        (0..columns.len()).map(|column| (column, natural(column))).collect();
    let needs = |fitted: &[(usize, usize)]| -> usize {
        let Some(((_, last), before)) = fitted.split_last() else { return 0 };
        before.iter().map(|(_, width)| width + GAP).sum::<usize>() + (*last).min(NARROWEST)
    };
    while needs(&fitted) > width && fitted.len() > 1 {
        let Some(worst) = (0..fitted.len()).max_by_key(|at| columns[fitted[*at].0].1) else {
            break;
        };
        fitted.remove(worst);
    }
    let before: usize = fitted.iter().rev().skip(1).map(|(_, width)| width + GAP).sum();
    if let Some((_, last)) = fitted.last_mut() {
        *last = width.saturating_sub(before);
    }
    fitted
}
