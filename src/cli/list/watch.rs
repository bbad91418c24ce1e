//! `list --watch`: the same table again and again, in its place on a terminal, one below the other anywhere else.
//!
//! Invariant: the terminal is as it was before, whatever ends or stops this that a program can see, also while Redis is slow to
//! answer; and a screen is written in one piece over the one before, so it never flickers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;
use signal_hook_tokio::Signals;

use super::{List, Printed, Wanted, print};
use crate::cli::args::Global;
use crate::cli::connect::connect;
use crate::cli::failure::Failure;
use crate::cli::render::{Colour, Console, shown, span};
use crate::cli::sight::Sight;
use crate::domain::duration::parse_duration;
use crate::domain::zone::Zone;
use crate::store::Store;

/// The shortest time between two tables.
const SHORTEST: Duration = Duration::from_millis(500);
/// Lines of a terminal that does not tell its size.
const LINES: u16 = 24;
/// Lines around the jobs: when it was, an empty one, the headers, how many there are.
const AROUND: usize = 4;
/// The context of an error of the system about signals.
const UNHEARD: &str = "signals cannot be waited for";

/// The time between two tables, as it was given.
pub(super) fn interval(text: &str) -> Result<Duration, Failure> {
    let interval = parse_duration(text).map_err(|error| Failure::Invalid(format!("--watch: {error}")))?;
    if interval < SHORTEST {
        return Err(Failure::Invalid(format!("--watch: {text} is too short, wanted at least {}", span(SHORTEST))));
    }
    Ok(interval)
}

/// Lists jobs each `interval` until somebody ends it; its code.
pub(super) async fn watch(global: &Global, args: &List, interval: Duration, console: &mut Console) -> Result<u8, Failure> {
    let wanted = Wanted::of(args)?;
    // Until there is a screen, signals do what they do to any program.
    let store = connect(global, console).await?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context(UNHEARD)?;
    let mut screen = console.can_be_drawn_on().then(|| Screen::open(console));
    if screen.is_some() {
        signals.handle().add_signal(SIGTSTP).context(UNHEARD)?;
    }
    let mut sight = Sight::default();
    loop {
        let turn = async {
            match &mut screen {
                Some(screen) => screen.draw(&store, args, &wanted, interval, console).await?,
                None => append(&store, args, &wanted, &mut sight, console).await?,
            }
            console.flush();
            if !console.is_deserted() {
                tokio::time::sleep(interval).await;
            }
            Ok::<(), Failure>(())
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
                // It stands still here until it is to go on.
                emulate_default_handler(SIGTSTP).context(UNHEARD)?;
                *screen = Screen::open(console);
                continue;
            }
        }
        return Ok(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX));
    }
}

/// Writes a table below those before.
async fn append(store: &Store, args: &List, wanted: &Wanted, sight: &mut Sight, console: &mut Console) -> Result<(), Failure> {
    let mut page = console.page();
    match print(store, args, wanted, usize::MAX, &mut page).await {
        Ok(Printed { now, .. }) => {
            sight.answered();
            if console.is_json() {
                // No text in JSON has a line break in it.
                console.line(&page.take_page().replace('\n', ""));
                return Ok(());
            }
            if console.has_headers() {
                console.line(&shown(now, &Zone::of_host()));
            }
            console.line(&page.take_page());
            Ok(())
        }
        Err(failure) => sight.bear(failure, "the jobs are not known from here", console),
    }
}

/// A terminal whose second screen is in use.
struct Screen {
    /// The table drawn last: it stays while Redis is away.
    table: String,
    is_open: bool,
}

impl Screen {
    /// Changes to the second screen, without a cursor and without lines that go on in the next.
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
        args: &List,
        wanted: &Wanted,
        interval: Duration,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let (lines, columns) = size.map_or((0, 0), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let lines = if lines == 0 { usize::from(LINES) } else { lines };
        let mut page = console.page();
        let first = match print(store, args, wanted, lines.saturating_sub(AROUND).max(1), &mut page).await {
            Ok(Printed { now, .. }) => {
                self.table = page.take_page();
                let head = format!("{}, every {}, ctrl-c ends it", shown(now, &Zone::of_host()), span(interval));
                console.paint(&head, Colour::Bold)
            }
            Err(failure @ Failure::Unreachable(_)) => console.paint(&failure.lines().join("; "), Colour::Red),
            Err(failure) => return Err(failure),
        };
        console.bytes(screenful(&first, &self.table, lines, columns).as_bytes());
        Ok(())
    }
}

/// Back to the first screen, with its cursor and its long lines.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_open {
            // An error or a panic ends it; there is nowhere to complain to.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), LEAVE.as_bytes());
            let _ = std::io::Write::flush(&mut std::io::stdout());
        }
    }
}

/// What draws a line and a table over whatever is there; `columns` are 0 where nobody knows them.
fn screenful(first: &str, table: &str, lines: usize, columns: usize) -> String {
    let mut text = "\x1b[H".to_owned();
    let all = [first, ""].into_iter().chain(table.lines()).take(lines);
    for (index, line) in all.enumerate() {
        // The last line ends without a line break, which would scroll.
        let _ = write!(text, "{}{}\x1b[K", if index == 0 { "" } else { "\r\n" }, fitted(line, columns));
    }
    text.push_str("\x1b[J");
    text
}

/// A line of at most so many columns: a longer one ends with a sign that there is more. What sets colours takes no room.
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
        assert_eq!(screenful("now", "a\nb\n", 9, 80), "\u{1b}[Hnow\u{1b}[K\r\n\u{1b}[K\r\na\u{1b}[K\r\nb\u{1b}[K\u{1b}[J");
        assert_eq!(screenful("now", "a\nb\nc\n", 3, 3), "\u{1b}[Hnow\u{1b}[K\r\n\u{1b}[K\r\na\u{1b}[K\u{1b}[J");
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
