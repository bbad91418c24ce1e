//! The terminal while `top` has it.
//!
//! Invariant: whatever ends it, a key, a signal, an error or a panic, the terminal is as it was before.

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::cli::failure::Failure;

/// The screen; given back when dropped, and by a hook where something panics.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> Result<Self, Failure> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                // It may have come half way. What cannot be given back was not taken.
                let _ = ratatui::try_restore();
                Err(failed(&error))
            }
        }
    }

    /// How many lines it has.
    pub(super) fn height(&self) -> u16 {
        self.terminal.size().map_or(0, |size| size.height)
    }

    /// Draws what has changed since the last time.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> std::io::Result<()> {
        self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // One that has gone needs nothing any more.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The failure of a terminal that cannot be used.
pub(super) fn failed(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("top: the terminal cannot be drawn on: {error}"))
}
