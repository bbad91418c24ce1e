//! The properties of the terminal on which `top` draws, and the styles and characters for that
//! terminal.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::render::Colour;

/// The properties of the terminal, and the fixed texts of the screen.
#[derive(Debug, Clone)]
pub(super) struct Theme {
    pub(super) has_colour: bool,
    /// True if the terminal shows more than ASCII.
    pub(super) is_unicode: bool,
    /// The source of the data: the namespace and the address of the Redis, or the address of the API.
    pub(super) place: String,
}

impl Theme {
    /// Returns the style for a colour. On a terminal without colours, red text is bold, and green
    /// and yellow text is plain.
    pub(super) fn style(&self, colour: Colour) -> Style {
        let plain = Style::new();
        match (colour, self.has_colour) {
            (Colour::Plain, _) | (Colour::Green | Colour::Yellow, false) => plain,
            (Colour::Bold, _) | (Colour::Red, false) => plain.add_modifier(Modifier::BOLD),
            (Colour::Dim, _) => plain.add_modifier(Modifier::DIM),
            (Colour::Green, true) => plain.fg(Color::Green),
            (Colour::Yellow, true) => plain.fg(Color::Yellow),
            (Colour::Red, true) => plain.fg(Color::Red),
        }
    }

    /// Returns the character at the end of a cut line: `…`, or `>` on a terminal with only ASCII.
    pub(super) fn more(&self) -> &'static str {
        if self.is_unicode { "…" } else { ">" }
    }

    /// Cuts a line to `width` columns. A cut line ends with `…`, or `>` on a terminal with only
    /// ASCII.
    pub(super) fn fitted<'a>(&self, line: Line<'a>, width: u16) -> Line<'a> {
        let width = usize::from(width);
        if line.to_string().trim_end().chars().count() <= width {
            return line;
        }
        let mut left = width.saturating_sub(1);
        let mut spans: Vec<Span<'a>> = Vec::new();
        for span in line.spans {
            let kept: String = span.content.chars().take(left).collect();
            left -= kept.chars().count();
            spans.push(Span::styled(kept, span.style));
        }
        spans.push(Span::raw(self.more()));
        Line::from(spans).style(line.style)
    }

    /// Returns the character for horizontal lines: `─`, or `-` on a terminal with only ASCII.
    pub(super) fn rule(&self) -> &'static str {
        if self.is_unicode { "─" } else { "-" }
    }
}
