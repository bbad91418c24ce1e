//! Drawing of the model of `top` into an area of cells. The functions are pure.
//!
//! Invariant: nothing is drawn outside the area, however small it is. If four lists do not fit,
//! only the list with the cursor is drawn. If the columns do not fit, the least important columns
//! are left out.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::pane_view::draw_pane;
use super::theme::Theme;
use super::top_lists::Pane;
use super::top_model::{Mode, Model};
use crate::cli::render::{Colour, one_line, span};

const KEYS: [(&str, &str); 12] = [
    ("tab, 1-4", "select the next list, or a list by its number"),
    ("up, down, j, k", "move the selection; also page up, page down, g, G"),
    ("enter", "show all details; for a run also its output"),
    ("p", "pause the job or queue, or resume it"),
    ("r", "run the job now"),
    ("c", "cancel the run, after you confirm"),
    ("/", "show only rows that contain a text"),
    ("esc", "remove the filter, or leave the details"),
    ("s", "sort by time, by name or by state"),
    ("?", "show this page"),
    ("q", "quit"),
    ("ctrl-c", "quit with exit code 130"),
];

/// The minimum terminal size (columns, lines) for lists that are drawn side by side.
const GRID: (u16, u16) = (130, 20);
/// The minimum number of lines for four lists that are drawn one below the other.
const STACK: u16 = 20;

/// Returns the number of lines for the details of one object on a terminal of `height` lines.
pub(super) fn page_of(height: u16) -> usize {
    usize::from(height).saturating_sub(usize::from(head_lines(height)) + 2)
}

fn head_lines(height: u16) -> u16 {
    if height >= STACK { 2 } else { 1 }
}

/// Draws the whole screen of `top`.
pub(super) fn draw(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(head_lines(area.height)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(model, theme, top, buffer);
    match &model.mode {
        Mode::Help => draw_help(theme, middle, buffer),
        Mode::Detail { subject, lines, from } => {
            draw_detail(&subject.text(), lines.as_deref(), *from, theme, middle, buffer);
        }
        Mode::Browse | Mode::Filter | Mode::Confirm(_) => draw_lists(model, theme, middle, buffer),
    }
    Paragraph::new(theme.fitted(foot(model, theme), bottom.width)).render(bottom, buffer);
}

fn draw_lists(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if area.width >= GRID.0 && area.height >= GRID.1 {
        let rows = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas::<2>(area);
        for (row, panes) in rows.into_iter().zip(Pane::ALL.chunks(2)) {
            let cells = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
                .spacing(2)
                .areas::<2>(row);
            cells
                .into_iter()
                .zip(panes)
                .for_each(|(cell, pane)| draw_pane(model, *pane, theme, cell, buffer));
        }
    } else if area.height.saturating_add(3) >= STACK {
        // The list with the cursor gets twice the space.
        let share = |pane: Pane| Constraint::Fill(if pane == model.pane { 2 } else { 1 });
        let cells = Layout::vertical(Pane::ALL.map(share)).areas::<4>(area);
        cells
            .into_iter()
            .zip(Pane::ALL)
            .for_each(|(cell, pane)| draw_pane(model, pane, theme, cell, buffer));
    } else {
        draw_pane(model, model.pane, theme, area, buffer);
    }
}

fn draw_head(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let first = match (&model.away, &model.data) {
        (Some(why), _) => {
            Line::styled(one_line(why), theme.style(Colour::Red).add_modifier(Modifier::BOLD))
        }
        (None, Some(data)) if area.height > 1 => {
            Line::styled(format!("{}  {}", data.time, theme.place), theme.style(Colour::Bold))
        }
        (None, Some(_)) => numbers(model, theme),
        (None, None) => Line::raw(format!("{}: reading", theme.place)),
    };
    let mut lines = vec![theme.fitted(first, area.width)];
    if area.height > 1 {
        lines.push(theme.fitted(numbers(model, theme), area.width));
    }
    Paragraph::new(lines).render(area, buffer);
}

/// Returns the line of counts. The most important counts come first, because a narrow terminal cuts
/// the line.
fn numbers<'a>(model: &Model, theme: &Theme) -> Line<'a> {
    let Some(data) = &model.data else { return Line::default() };
    let head = &data.head;
    let mut spans = Vec::new();
    let mut say = |text: String, colour: Colour| {
        spans.push(Span::styled(format!("{text}  "), theme.style(colour)));
    };
    let nodes = if head.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", head.nodes) };
    say(nodes, if head.nodes == 0 { Colour::Red } else { Colour::Plain });
    if head.gone_nodes > 0 {
        say(format!("{} gone", head.gone_nodes), Colour::Yellow);
    }
    if head.nodes_at_limit > 0 {
        say(format!("{} at a limit", head.nodes_at_limit), Colour::Yellow);
    }
    say(format!("{} running", head.running), Colour::Plain);
    if let Some(lag) = head.lag {
        say(
            format!("lag {}", span(lag)),
            if lag.as_secs() >= 60 { Colour::Red } else { Colour::Plain },
        );
    }
    say(format!("{} scheduled", head.scheduled), Colour::Plain);
    if head.waiting > 0 {
        say(format!("{} of them waiting", head.waiting), Colour::Plain);
    }
    say(format!("{} jobs", head.jobs), Colour::Plain);
    for (word, count) in
        head.ended.iter().filter(|(word, count)| *count > 0 || *word == "succeeded")
    {
        let is_bad = matches!(word.as_str(), "failed" | "timed out" | "lost");
        say(format!("{count} {word}"), if is_bad { Colour::Red } else { Colour::Plain });
    }
    if let Some(bytes) = head.memory {
        say(format!("Redis {} MiB", bytes / (1 << 20)), Colour::Plain);
    }
    Line::from(spans)
}

fn foot<'a>(model: &Model, theme: &Theme) -> Line<'a> {
    match (&model.mode, &model.message) {
        (Mode::Confirm(run), _) => {
            Line::styled(format!("y/n: cancel run {run}?"), theme.style(Colour::Yellow))
        }
        (Mode::Filter, _) => Line::raw(format!(
            "/{}_  (enter keeps the filter, esc removes it)",
            one_line(&model.filter)
        )),
        (Mode::Help, _) => Line::raw("any key goes back"),
        (Mode::Detail { .. }, _) => Line::raw("esc back  j/k scroll"),
        (Mode::Browse, Some(Ok(done))) => Line::styled(one_line(done), theme.style(Colour::Green)),
        (Mode::Browse, Some(Err(why))) => Line::styled(one_line(why), theme.style(Colour::Red)),
        (Mode::Browse, None) if model.filter.is_empty() => Line::raw(
            "? help  q quit  tab list  enter show  p pause  r run  c cancel  / filter  s sort",
        ),
        (Mode::Browse, None) => {
            Line::raw(format!("only rows with {:?} (esc shows all rows)", one_line(&model.filter)))
        }
    }
}

fn draw_help(theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let line = |(keys, what): &(&'static str, &'static str)| {
        Line::from(vec![
            Span::styled(format!("{keys:<15} "), theme.style(Colour::Bold)),
            Span::raw(*what),
        ])
    };
    Paragraph::new(KEYS.iter().map(line).collect::<Vec<_>>()).render(area, buffer);
}

fn draw_detail(
    title: &str,
    lines: Option<&[String]>,
    from: usize,
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut shown = vec![Line::styled(title.to_owned(), theme.style(Colour::Bold))];
    match lines {
        None => shown.push(Line::raw("reading")),
        Some(lines) => shown.extend(
            lines
                .iter()
                .skip(from)
                .take(usize::from(area.height))
                .map(|line| theme.fitted(Line::raw(line.clone()), area.width)),
        ),
    }
    Paragraph::new(shown).render(area, buffer);
}
