//! A progress bar for a long `add --stdin`, with position and speed, on the terminal of standard
//! error.
//!
//! Invariant: the bar appears only on a terminal, only after the adding has taken a while, and is
//! removed at the end. A signal that ends the process removes it too.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook_tokio::Signals;

use crate::cli::render::{Console, span};

/// The time after which the bar of a running `add --stdin` is shown.
const SHOWN_AFTER: Duration = Duration::from_millis(700);
/// The time between two updates of the bar.
const EVERY: Duration = Duration::from_millis(200);

/// The progress of `add --stdin`, shown as a bar.
pub(super) struct AddProgress {
    began: Instant,
    /// The total number of bytes of input, or `None` if it is unknown.
    length: Option<u64>,
    bytes: u64,
    jobs: u64,
    bar: Option<ProgressBar>,
    is_wanted: bool,
}

impl AddProgress {
    /// Starts to measure the progress of standard input.
    pub(super) fn new(console: &Console) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let is_wanted =
            console.is_local() && console.is_error_terminal() && !is_dumb && !console.is_quiet();
        Self {
            began: Instant::now(),
            length: bytes_to_come(std::io::stdin()),
            bytes: 0,
            jobs: 0,
            bar: None,
            is_wanted,
        }
    }

    /// Moves the bar forward by `lines` finished lines, which are `bytes` bytes of input.
    pub(super) fn add(&mut self, lines: usize, bytes: u64) {
        self.jobs += lines as u64;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_wanted && self.bar.is_none() && self.began.elapsed() >= SHOWN_AFTER {
            self.bar = bar(self.length);
            self.bar.iter().for_each(clear_when_ended);
        }
        if let Some(bar) = &self.bar {
            bar.set_message(words(self.jobs, self.bytes, self.length, self.began.elapsed()));
            bar.set_position(self.bytes);
        }
    }

    /// Runs `write`, which writes to the terminal, while the bar is hidden. Returns the result of
    /// `write`.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for AddProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(length: Option<u64>) -> Option<ProgressBar> {
    let template =
        if length.is_some() { "[{bar:20.=>-}] {percent:>3}% {msg}" } else { "{spinner} {msg}" };
    let style =
        ProgressStyle::with_template(template).ok()?.progress_chars("=>-").tick_chars("|/-\\ ");
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(5))
        .with_style(style);
    bar.enable_steady_tick(EVERY);
    Some(bar)
}

/// Removes the bar when a signal arrives, then lets the signal end the process. If signals cannot
/// be handled, a signal ends the process at once.
fn clear_when_ended(bar: &ProgressBar) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]) else { return };
    let bar = bar.clone();
    tokio::spawn(async move {
        if let Some(signal) = signals.next().await {
            bar.finish_and_clear();
            // This fails only for signals that do not exist.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// Returns the number of unread bytes of a regular file, or `None` for any other input.
fn bytes_to_come(input: impl AsFd) -> Option<u64> {
    let about = rustix::fs::fstat(&input).ok()?;
    let is_file =
        rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::RegularFile;
    let position = rustix::fs::tell(&input).ok()?;
    u64::try_from(about.st_size).ok().filter(|_| is_file).map(|size| size.saturating_sub(position))
}

fn words(jobs: u64, bytes: u64, length: Option<u64>, took: Duration) -> String {
    let a_second = u128::from(jobs) * 1_000 / took.as_millis().max(1);
    let left = length.filter(|_| bytes > 0).map(|length| {
        let ms = took.as_millis() * u128::from(length.saturating_sub(bytes)) / u128::from(bytes);
        format!(
            ", {} left",
            span(Duration::from_secs(u64::try_from(ms / 1_000).unwrap_or(u64::MAX).max(1)))
        )
    });
    format!("{jobs} lines, {a_second} a second{}", left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn what_is_left_is_reported_where_the_whole_is_known() {
        let four = Duration::from_secs(4);
        assert_eq!(words(2_000, 500, Some(1_500), four), "2000 lines, 500 a second, 8s left");
        assert_eq!(words(2_000, 500, None, four), "2000 lines, 500 a second");
        assert_eq!(words(0, 0, Some(9), Duration::ZERO), "0 lines, 0 a second");
    }

    #[test]
    fn only_a_file_has_a_length_and_what_was_read_before_does_not_count() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        assert_eq!(bytes_to_come(&file), Some(6));
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(bytes_to_come(&reader), None);
    }
}
