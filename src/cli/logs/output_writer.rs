//! A writer for the output of a run while the output arrives. Each stream is written to the stream
//! of the same name, or as JSON lines.
//!
//! Invariant: no control sequence reaches a terminal unless `--raw` is given. A character that
//! arrives in two pieces is printed as one character.

use serde_json::json;

use crate::cli::render::{Console, safe_text};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::OutputStream;

/// The rule by which control characters in the output are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escaping {
    /// Control characters are escaped on terminals.
    OnTerminals,
    /// Control characters are never escaped, as with `--raw`.
    Never,
}

/// A writer for the two output streams of one attempt.
pub(super) struct OutputWriter {
    run: RunId,
    attempt: u32,
    escaping: Escaping,
    unfinished_bytes: [Vec<u8>; 2],
    /// The number of bytes of the output that were taken or counted as missed.
    taken: u64,
    /// The number of those bytes up to the last piece that was written.
    position: u64,
}

impl OutputWriter {
    /// Creates a writer for the output of an attempt behind its first `position` bytes.
    pub(super) fn behind(position: u64, run: &RunId, attempt: u32, escaping: Escaping) -> Self {
        Self {
            run: run.clone(),
            attempt,
            escaping,
            unfinished_bytes: Default::default(),
            taken: position,
            position,
        }
    }

    /// Returns the number of bytes of the output up to the last piece that was written.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Begins again with the first byte of an output.
    pub(super) fn begin_anew(&mut self, console: &mut Console) {
        self.end(console);
        (self.taken, self.position) = (0, 0);
    }

    /// Writes bytes of a stream. An unfinished character at the end is kept until the rest of the
    /// character arrives.
    pub(super) fn write(&mut self, stream: OutputStream, bytes: &[u8], console: &mut Console) {
        self.taken += bytes.len() as u64;
        self.position = self.taken;
        if !console.is_json() && !self.is_escaped(stream, console) {
            return match stream {
                OutputStream::Stdout => console.bytes(bytes),
                OutputStream::Stderr => console.aside_bytes(bytes),
            };
        }
        let unfinished_bytes =
            &mut self.unfinished_bytes[usize::from(stream == OutputStream::Stderr)];
        unfinished_bytes.extend_from_slice(bytes);
        let rest =
            unfinished_bytes.split_off(unfinished_bytes.len() - unfinished(unfinished_bytes));
        self.position -= rest.len() as u64;
        let whole = std::mem::replace(unfinished_bytes, rest);
        self.text(stream, &whole, console);
    }

    /// Writes the kept bytes of both streams at the end of the attempt.
    pub(super) fn end(&mut self, console: &mut Console) {
        for (stream, at) in [(OutputStream::Stdout, 0), (OutputStream::Stderr, 1)] {
            let rest = std::mem::take(&mut self.unfinished_bytes[at]);
            self.position = self.taken;
            self.text(stream, &rest, console);
        }
    }

    /// Reports the number of bytes that Redis dropped before they were read.
    pub(super) fn missed(&mut self, count: u64, console: &mut Console) {
        self.taken += count;
        self.position = self.taken;
        if console.is_json() {
            self.json("", "", count, None, console);
        } else {
            console.note(&format!("the next {count} bytes of the output were not stored"));
        }
    }

    /// Prints the final JSON object with the state of the run.
    pub(super) fn over(&self, state: RunState, console: &mut Console) {
        self.json("", "", 0, Some(state), console);
    }

    fn is_escaped(&self, stream: OutputStream, console: &Console) -> bool {
        let is_terminal = match stream {
            OutputStream::Stdout => console.is_terminal(),
            OutputStream::Stderr => console.is_error_terminal(),
        };
        is_terminal && self.escaping == Escaping::OnTerminals
    }

    fn text(&self, stream: OutputStream, bytes: &[u8], console: &mut Console) {
        if bytes.is_empty() {
            return;
        }
        match (stream, console.is_json()) {
            (OutputStream::Stdout, true) => {
                self.json(&String::from_utf8_lossy(bytes), "", 0, None, console);
            }
            (OutputStream::Stderr, true) => {
                self.json("", &String::from_utf8_lossy(bytes), 0, None, console);
            }
            (OutputStream::Stdout, false) => console.bytes(safe_text(bytes).as_bytes()),
            (OutputStream::Stderr, false) => console.aside_bytes(safe_text(bytes).as_bytes()),
        }
    }

    fn json(
        &self,
        stdout: &str,
        stderr: &str,
        dropped_bytes: u64,
        state: Option<RunState>,
        console: &mut Console,
    ) {
        console.json(&json!({
            "run_id": self.run.to_string(),
            "attempt": (self.attempt > 0).then_some(self.attempt),
            "stdout": stdout,
            "stderr": stderr,
            "dropped_bytes": dropped_bytes,
            "position": (self.attempt > 0).then_some(self.position),
            "state": state.map(RunState::as_str),
        }));
    }
}

/// Returns how many bytes at the end of `bytes` may be the start of a character or of a two-byte
/// line end.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    match std::str::from_utf8(bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default()) {
        Ok(_) => 0,
        // A slice that starts inside a character may look invalid at its beginning.
        Err(_) => (1..=bytes.len().min(3))
            .find(|count| is_begun(&bytes[bytes.len() - count..]))
            .unwrap_or(0),
    }
}

/// Returns true if `bytes` are the incomplete start of one character and nothing else.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_go_on_is_held_back_and_what_is_damaged_is_not() {
        for (bytes, unfinished_bytes) in [
            (&b"abc"[..], 0),
            (b"", 0),
            (b"a\r", 1),
            ("ä".as_bytes(), 0),
            (&"aä".as_bytes()[..2], 1),
            (&"a\u{20ac}".as_bytes()[..3], 2),
            (&"a\u{1f600}".as_bytes()[..4], 3),
            ("a\u{1f600}".as_bytes(), 0),
            (b"\xff\xff", 0),
            (b"\x80\x80\x80", 0),
        ] {
            assert_eq!(unfinished(bytes), unfinished_bytes, "{bytes:?}");
        }
    }
}
