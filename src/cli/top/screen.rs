//! The terminal while `top` uses it.
//!
//! Invariant: the terminal is restored at any end: a key, a signal, an error or a panic.

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::cli::failure::CliFailure;

/// The screen of `top`. The terminal is restored when the screen is dropped, and by a hook after a
/// panic.
pub(super) struct TopScreen {
    terminal: DefaultTerminal,
}

impl TopScreen {
    /// Switches the terminal to the screen of `top`.
    pub(super) fn open() -> Result<Self, CliFailure> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                // The switch may have failed half way. If restoring fails, nothing was switched.
                let _ = ratatui::try_restore();
                Err(failed(&error))
            }
        }
    }

    /// Returns the number of lines of the screen.
    pub(super) fn height(&self) -> u16 {
        self.terminal.size().map_or(0, |size| size.height)
    }

    /// Draws those parts of the screen that have changed since the last call.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> std::io::Result<()> {
        self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        // A failed restore needs no report: the terminal is gone.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Returns the failure for a terminal on which `top` cannot be shown.
pub(super) fn failed(error: &std::io::Error) -> CliFailure {
    CliFailure::Failed(format!("top: the terminal cannot be drawn on: {error}"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::TopScreen;

    /// The environment variable that is set for the process that panics.
    const PANICS: &str = "SCHEDD_TEST_PANICS";

    /// Panics if the test below has started this process on its own terminal, else does nothing.
    #[test]
    fn somebody_panics_while_the_screen_is_held() {
        let Ok(place) = std::env::var(PANICS) else { return };
        let mut screen = TopScreen::open().unwrap();
        screen
            .draw(|area, buffer| {
                buffer.set_string(area.x, area.y, "drawn", ratatui::style::Style::new());
            })
            .unwrap();
        assert_ne!(place, "here", "in the hand that draws");
        let other = std::thread::spawn(|| panic!("in another thread"));
        assert!(other.join().is_err());
        // The process ends without dropping the screen.
        std::process::exit(3);
    }

    #[test]
    fn a_panic_anywhere_gives_the_terminal_back_before_it_is_reported() {
        const ENTER: &str = "\u{1b}[?1049h";
        const LEAVE: &str = "\u{1b}[?1049l";
        const SHOW_CURSOR: &str = "\u{1b}[?25h";
        let this = std::env::current_exe().unwrap();
        for (place, message) in
            [("here", "in the hand that draws"), ("elsewhere", "in another thread")]
        {
            let line = format!(
                "stty cols 80 rows 24; before=$(stty -g); '{}' --exact --nocapture cli::top::screen::tests::somebody_panics_while_the_screen_is_held; \
                 [ \"$before\" = \"$(stty -g)\" ] && echo restored",
                this.display()
            );
            let mut command = Command::new("script");
            command
                .args(["-qec", &line, "/dev/null"])
                .env("SHELL", "/bin/sh")
                .env("TERM", "xterm")
                .env(PANICS, place);
            let output = command.stdin(Stdio::null()).output().unwrap();
            let seen = String::from_utf8_lossy(&output.stdout);
            let (before, behind) =
                seen.split_once(LEAVE).unwrap_or_else(|| panic!("not left: {seen:?}"));
            assert!(before.contains(ENTER) && before.contains("drawn"), "{seen:?}");
            assert!(behind.contains(message) && behind.contains("restored"), "{seen:?}");
            assert!(place != "here" || behind.contains(SHOW_CURSOR), "{seen:?}");
        }
    }
}
