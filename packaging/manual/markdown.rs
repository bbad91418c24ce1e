//! As much of Markdown as `docs/` uses, as a part of a manual page: paragraphs, lists, tables, code and words that stand out.

use clap_mangen::roff::{Inline, Roff, bold, roman};

/// Line below which a page of `docs/` only links to its neighbours.
const FOOT: &str = "---";

/// A whole page below its heading `# TITLE`, without the links at its foot; none if it does not begin with a heading.
pub(crate) fn page(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let title = lines.next()?.strip_prefix("# ")?;
    let body: Vec<&str> = lines.take_while(|line| *line != FOOT).collect();
    Some(part(title, &body))
}

/// The section below the heading `## TITLE`, up to the next of its kind, under `heading`; none if there is no such section.
pub(crate) fn section(text: &str, title: &str, heading: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.strip_prefix("## ") != Some(title));
    lines.next()?;
    let body: Vec<&str> =
        lines.take_while(|line| !line.starts_with("## ") && *line != FOOT).collect();
    Some(part(heading, &body))
}

fn part(title: &str, body: &[&str]) -> String {
    let mut roff = Roff::new();
    roff.control("SH", [title.to_uppercase().as_str()]);
    blocks(body, &mut roff);
    roff.render()
}

fn blocks(lines: &[&str], roff: &mut Roff) {
    // Below a heading a paragraph begins by itself.
    let (mut at, mut is_first, mut is_within) = (0, true, false);
    while let Some(line) = lines.get(at) {
        let rest = &lines[at..];
        if line.trim().is_empty() {
            (at, is_within) = (at + 1, false);
            continue;
        }
        if let Some(heading) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
            roff.control("SS", [heading.replace('`', "").as_str()]);
            (at, is_first, is_within) = (at + 1, true, false);
            continue;
        }
        at += if line.starts_with("```") {
            code(rest, roff)
        } else if line.starts_with('|') {
            table(rest, roff)
        } else if line.starts_with("- ") {
            item(rest, roff)
        } else {
            if !is_within && !is_first {
                roff.control("PP", []);
            }
            is_within = true;
            roff.text(inline(line));
            1
        };
        is_first = false;
    }
}

/// Lines between fences, as they stand.
fn code(lines: &[&str], roff: &mut Roff) -> usize {
    let inside = lines.iter().skip(1).take_while(|line| !line.starts_with("```")).count();
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in &lines[1..=inside] {
        roff.text([roman(*line)]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
    inside + 2
}

/// A point of a list with the lines that go on with it.
fn item(lines: &[&str], roff: &mut Roff) -> usize {
    let more = lines.iter().skip(1).take_while(|line| line.starts_with("  ")).count();
    roff.control("IP", ["*", "2"]);
    for line in &lines[..=more] {
        roff.text(inline(line.trim_start_matches("- ").trim_start()));
    }
    more + 1
}

/// A row is a paragraph below its first cell; of the cells after the second the heading of the column is said.
fn table(lines: &[&str], roff: &mut Roff) -> usize {
    let rows = lines.iter().take_while(|line| line.starts_with('|')).count();
    let headings = cells(lines[0]);
    for line in &lines[2.min(rows)..rows] {
        let cells = cells(line);
        roff.control("TP", []);
        roff.text(inline(&cells[0]));
        let mut said = false;
        for (heading, cell) in
            headings.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty())
        {
            let text = if said { format!("({heading}: {cell})") } else { cell.clone() };
            roff.text(inline(&text));
            said = true;
        }
        if !said {
            roff.text([roman(" ")]);
        }
    }
    rows
}

fn cells(row: &str) -> Vec<String> {
    let whole = row.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let whole = whole.strip_suffix('|').unwrap_or(&whole);
    whole.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// A line with `code` and **words** that stand out, and links as their words.
fn inline(line: &str) -> Vec<Inline> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, from) = rest.split_at(at);
        let found = if let Some(inner) = from.strip_prefix('`') {
            inner.split_once('`').map(|(word, after)| (bold(word), after))
        } else if let Some(inner) = from.strip_prefix("**") {
            inner.split_once("**").map(|(words, after)| (bold(words), after))
        } else {
            link(from).map(|(words, after)| (roman(words.replace('`', "")), after))
        };
        let (part, after) = found.unwrap_or_else(|| {
            let (sign, after) = from.split_at(1);
            (roman(sign), after)
        });
        parts.extend([roman(before), part]);
        rest = after;
    }
    parts.push(roman(rest));
    parts
}

/// The words of `[words](address)`, and what comes after.
fn link(from: &str) -> Option<(&str, &str)> {
    let (words, rest) = from.strip_prefix('[')?.split_once("](")?;
    let (_address, after) = rest.split_once(')')?;
    (!words.contains('[')).then_some((words, after))
}
