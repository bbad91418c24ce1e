//! What `next` and `describe` print, word for word: `transcripts/*.txt` hold calls and what a person saw then.
//!
//! Of a table the widths of columns and how far a time is from today are left out: both change with the days. What went to
//! the standard error has a `!` before it.

use std::fs;

use crate::support::ctl::Schedctl;

/// The words of a line, single quotes around those with blanks.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(
            |(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() },
        )
        .collect()
}

/// A line without what another day would show otherwise.
fn timeless(line: &str) -> String {
    let cells: Vec<&str> =
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let is_when = |cell: &str| {
        cell.ends_with(" ago")
            || cell.starts_with("in ") && cell.contains(|c: char| c.is_ascii_digit())
    };
    let is_row = cells.get(2).is_some_and(|cell| is_when(cell))
        && (cells[1].ends_with('Z') || cells[1].contains(" in ") || cells[1] == "-");
    let cells: Vec<&str> = cells
        .iter()
        .enumerate()
        .map(|(at, cell)| if is_row && at == 2 { "..." } else { *cell })
        .collect();
    let line = cells.join("  ");
    let Some((before, after)) = line.split_once("\"relative_s\":") else { return line };
    format!(
        "{before}\"relative_s\":...{}",
        after.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit())
    )
}

/// Makes each call of a transcript again and tells it as the transcript should be.
fn reported_again(transcript: &str) -> String {
    let ctl = Schedctl::alone().env("TZ", "UTC");
    fs::write(ctl.home().join("jobs.toml"), include_str!("transcripts/jobs.toml")).unwrap();
    let calls = transcript.lines().filter_map(|line| line.strip_prefix("$ "));
    let lines = calls.flat_map(|call| {
        let finished = ctl.run(&words(call));
        let mut lines = vec![format!("$ {call}")];
        lines.extend(finished.stdout.lines().map(timeless));
        lines.extend(finished.stderr.lines().map(|line| format!("! {line}")));
        lines.extend((finished.code != 0).then(|| format!("! exit code {}", finished.code)));
        lines.push(String::new());
        lines
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_reported(transcript: &str) {
    let reported = reported_again(transcript);
    assert!(reported.trim_end() == transcript.trim_end(), "what is printed now:\n{reported}");
}

#[test]
fn next_reports_local_time_utc_and_what_clock_changes_do() {
    assert_reported(include_str!("transcripts/next.txt"));
}

#[test]
fn describe_reports_a_schedule_in_words() {
    assert_reported(include_str!("transcripts/describe.txt"));
}
