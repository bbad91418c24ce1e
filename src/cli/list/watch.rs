//! `list --watch`: the same table repeatedly. On a terminal each table replaces the previous table,
//! otherwise the tables follow each other.
//!
//! Invariant: the terminal is restored after any end or stop that a program can notice, even while
//! Redis is slow. A screen is written over the previous screen in one piece, so the terminal does
//! not flicker.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;
use signal_hook_tokio::Signals;

use super::job_sheet::{Printed, print};
use super::list_flags::ListArgs;
use super::listed_jobs::Wanted;
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Colour, Console, shown, span};
use crate::cli::runs::run_poller::RunPoller;
use crate::cli::state::node_presence::warn_if_none_runs;
use schedd_schedule::time::duration::parse_duration;
use schedd_store::Store;

/// The shortest allowed interval between two tables.
const SHORTEST: Duration = Duration::from_millis(500);
/// The number of lines assumed for a terminal that does not report its size.
const LINES: u16 = 24;
/// The number of screen lines that show no job: the time, an empty line, the headers, the count.
const AROUND: usize = 4;
/// The context of a system error while listening for signals.
const UNHEARD: &str = "cannot listen for signals";

/// Parses the interval between two tables. Refuses an interval that is too short.
pub(super) fn interval(text: &str) -> Result<Duration, CliFailure> {
    let interval =
        parse_duration(text).map_err(|error| CliFailure::Invalid(format!("--watch: {error}")))?;
    if interval < SHORTEST {
        return Err(CliFailure::Invalid(format!(
            "--watch: {text} is too short, wanted at least {}",
            span(SHORTEST)
        )));
    }
    Ok(interval)
}

/// Lists jobs at each `interval` until the user ends the listing. Returns the exit code.
pub(super) async fn watch(
    global: &Global,
    args: &ListArgs,
    interval: Duration,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let wanted = Wanted::of(args)?;
    // Before the screen is opened, signals have their default effect.
    let store = connect(global, console).await?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context(UNHEARD)?;
    let mut screen = console.can_be_drawn_on().then(|| Screen::open(console));
    if screen.is_some() {
        signals.handle().add_signal(SIGTSTP).context(UNHEARD)?;
    }
    let mut poller = RunPoller::default();
    loop {
        let turn = async {
            match &mut screen {
                Some(screen) => screen.draw(&store, args, &wanted, interval, console).await?,
                None => append(&store, args, &wanted, &mut poller, console).await?,
            }
            console.flush();
            if !console.is_deserted() {
                tokio::time::sleep(interval).await;
            }
            Ok::<(), CliFailure>(())
        };
        let signal = tokio::select! {
            turn = turn => {
                turn?;
                if console.is_deserted() {
                    return Ok(0);
                }
                continue;
            }
            signal = signals.next() => signal.unwrap_or(SIGINT),
        };
        if let Some(screen) = &mut screen {
            screen.close(console);
            if signal == SIGTSTP {
                // The process stops here until SIGCONT continues it.
                emulate_default_handler(SIGTSTP).context(UNHEARD)?;
                *screen = Screen::open(console);
                continue;
            }
        }
        return Ok(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX));
    }
}

/// Prints a table below the previous tables.
async fn append(
    store: &Store,
    args: &ListArgs,
    wanted: &Wanted,
    poller: &mut RunPoller,
    console: &mut Console,
) -> Result<(), CliFailure> {
    let mut page = console.page();
    match print_once(store, args, wanted, usize::MAX, &mut page).await {
        Ok(Printed { now, .. }) => {
            poller.answered();
            if console.is_json() {
                // Strings in JSON contain no raw line breaks, so this joins the document into one
                // line.
                console.line(&page.take_page().replace('\n', ""));
                return Ok(());
            }
            if console.has_headers() {
                console.line(&shown(now, &local_zone()));
            }
            console.line(&page.take_page());
            Ok(())
        }
        Err(failure) => poller.report_outage(failure, "the jobs cannot be listed", console),
    }
}

/// Prints the selected jobs of the places that answer now.
async fn print_once(
    store: &Store,
    args: &ListArgs,
    wanted: &Wanted,
    most: usize,
    page: &mut Console,
) -> Result<Printed, CliFailure> {
    print(&answering_places(store, page).await?, args, wanted, most, page).await
}

/// The alternate screen of the terminal, which shows the table.
struct Screen {
    /// The last drawn table. This table stays on the screen while Redis is out of reach.
    table: String,
    is_open: bool,
}

impl Screen {
    /// Switches to the alternate screen, hides the cursor and turns line wrapping off.
    fn open(console: &mut Console) -> Self {
        console.bytes(b"\x1b[?1049h\x1b[?25l\x1b[?7l");
        Self { table: String::new(), is_open: true }
    }

    fn close(&mut self, console: &mut Console) {
        if std::mem::take(&mut self.is_open) {
            console.bytes(LEAVE.as_bytes());
            console.flush();
        }
    }

    async fn draw(
        &mut self,
        store: &Store,
        args: &ListArgs,
        wanted: &Wanted,
        interval: Duration,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let (lines, columns) =
            size.map_or((0, 0), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let lines = if lines == 0 { usize::from(LINES) } else { lines };
        let mut page = console.page();
        warn_if_none_runs(store, &mut page).await;
        let warning = page.take_page();
        let most = lines.saturating_sub(AROUND + warning.lines().count()).max(1);
        let first = match print_once(store, args, wanted, most, &mut page).await {
            Ok(Printed { now, .. }) => {
                self.table = warning + &page.take_page();
                let head = format!(
                    "{}, every {}, Ctrl-C quits",
                    shown(now, &local_zone()),
                    span(interval)
                );
                console.paint(&head, Colour::Bold)
            }
            Err(failure @ CliFailure::Unreachable(_)) => {
                console.paint(&failure.lines().join("; "), Colour::Red)
            }
            Err(failure) => return Err(failure),
        };
        console.bytes(screenful(&first, &self.table, lines, columns).as_bytes());
        Ok(())
    }
}

/// The control sequences that switch back to the main screen, show the cursor and turn line
/// wrapping on.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_open {
            // A failed write during an error or a panic cannot be reported anywhere.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), LEAVE.as_bytes());
            let _ = std::io::Write::flush(&mut std::io::stdout());
        }
    }
}

/// Returns the text that draws the line `first` and a table over the old screen. `columns` is 0 if
/// the width of the terminal is unknown.
fn screenful(first: &str, table: &str, lines: usize, columns: usize) -> String {
    let mut text = "\x1b[H".to_owned();
    let all = [first, ""].into_iter().chain(table.lines()).take(lines);
    for (index, line) in all.enumerate() {
        // The last line ends without a line break, which would scroll the screen.
        let _ =
            write!(text, "{}{}\x1b[K", if index == 0 { "" } else { "\r\n" }, fitted(line, columns));
    }
    text.push_str("\x1b[J");
    text
}

/// Cuts a line to `columns` columns and marks the cut with `>`. Colour sequences do not count as
/// columns.
fn fitted(line: &str, columns: usize) -> Cow<'_, str> {
    let (mut at, mut is_escape, mut cut) = (0, false, None);
    for (offset, letter) in line.char_indices() {
        if letter == '\x1b' || is_escape {
            is_escape = letter != 'm';
            continue;
        }
        at += 1;
        if at == columns {
            cut = Some(offset);
        }
    }
    match cut.filter(|_| at > columns) {
        Some(cut) => Cow::Owned(format!("{}\x1b[0m>", &line[..cut])),
        None => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_never_scrolls() {
        assert_eq!(
            screenful("now", "a\nb\n", 9, 80),
            "\u{1b}[Hnow\u{1b}[K\r\n\u{1b}[K\r\na\u{1b}[K\r\nb\u{1b}[K\u{1b}[J"
        );
        assert_eq!(
            screenful("now", "a\nb\nc\n", 3, 3),
            "\u{1b}[Hnow\u{1b}[K\r\n\u{1b}[K\r\na\u{1b}[K\u{1b}[J"
        );
        assert_eq!(screenful("now", "a\n", 1, 0), "\u{1b}[Hnow\u{1b}[K\u{1b}[J");
    }

    #[test]
    fn a_line_that_is_too_long_shows_that_it_is_cut() {
        assert_eq!(fitted("\u{1b}[1mabc\u{1b}[0m", 3), "\u{1b}[1mabc\u{1b}[0m");
        assert_eq!(fitted("a\u{1b}[1mbcd\u{1b}[0m", 3), "a\u{1b}[1mb\u{1b}[0m>");
        assert_eq!((fitted("äöü", 2), fitted("äöü", 0)), ("ä\u{1b}[0m>".into(), "äöü".into()));
    }

    #[test]
    fn an_interval_is_a_duration_that_is_not_too_short() {
        assert_eq!(interval("1m").unwrap(), Duration::from_secs(60));
        for bad in ["", "5", "10ms", "soon"] {
            assert_eq!(interval(bad).unwrap_err().code(), 2, "{bad}");
        }
    }
}
