//! Tables whose columns are aligned with spaces, printed page by page.
//!
//! Invariant: no cell is cut. A column is as wide as its widest cell so far. The last column is not
//! padded. The first [`ALIGNED`] rows are aligned with each other, also if they come in parts.

use super::console::{Colour, Console};
use super::escape::one_line;

/// The number of rows that are collected before the first of them is printed.
const ALIGNED: usize = 2_000;

/// A cell of a table, with its colour.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    /// Creates a cell with a text. An empty text is shown as a dash.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        let text = one_line(text.as_ref());
        Self { text: if text.is_empty() { "-".to_owned() } else { text }, colour: Colour::Plain }
    }

    /// Creates a cell with an optional text. `None` or an empty text is shown as a dash.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self::new(""), Self::new)
    }

    /// Returns the cell with its text in a colour.
    #[must_use]
    pub(crate) fn coloured(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// A table of `N` columns.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    headers: [&'static str; N],
    widths: [usize; N],
    collected: Vec<[Cell; N]>,
    is_begun: bool,
}

impl<const N: usize> Table<N> {
    /// Creates a table without rows.
    pub(crate) fn new(headers: [&'static str; N]) -> Self {
        let widths = headers.map(|header| header.chars().count());
        Self { headers, widths, collected: Vec::new(), is_begun: false }
    }

    /// Adds rows that are printed later, by [`Table::end`] or together with many other rows.
    pub(crate) fn add(&mut self, rows: Vec<[Cell; N]>, console: &mut Console) {
        self.collected.extend(rows);
        if self.collected.len() >= ALIGNED {
            self.end(console);
        }
    }

    /// Prints the rows that were added and not yet printed.
    pub(crate) fn end(&mut self, console: &mut Console) {
        let rows = std::mem::take(&mut self.collected);
        self.page(&rows, console);
    }

    /// Prints the rows. The first call also prints the headers above the rows.
    pub(crate) fn page(&mut self, rows: &[[Cell; N]], console: &mut Console) {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        if !self.is_begun && !rows.is_empty() {
            self.is_begun = true;
            if console.has_headers() {
                let headers = self.headers.map(|header| Cell::new(header).coloured(Colour::Bold));
                self.row(&headers, console);
            }
        }
        for row in rows {
            self.row(row, console);
        }
    }

    fn row(&self, row: &[Cell; N], console: &mut Console) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            line.push_str(&console.paint(&cell.text, cell.colour));
            if index + 1 < N {
                line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
            }
        }
        console.line(&line);
    }
}
