//! The output of a verb that this process runs for an HTTP request, as pieces for the task that
//! answers the request.
//!
//! Invariant: a bounded number of bytes waits for the reader. A verb whose reader is slower gets
//! the same error as a verb whose standard output is closed, so it never waits for its reader.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// The maximum number of bytes of output that wait for the reader.
const MOST_UNREAD: usize = 32 * 1024 * 1024;

/// The form of the output that the sender of an HTTP request asked for.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent settings of the sender's terminal")]
pub(crate) struct OutputForm {
    pub(crate) is_json: bool,
    pub(crate) has_headers: bool,
    pub(crate) is_quiet: bool,
    pub(crate) is_terminal: bool,
    pub(crate) is_error_terminal: bool,
    pub(crate) has_colour: bool,
    /// True if the terminal is narrow.
    pub(crate) is_brief: bool,
    /// True if the sender may not see values that may be secret.
    pub(crate) conceals: bool,
}

/// The stream to which a verb wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerbStream {
    /// The standard output.
    Output,
    /// The standard error.
    Errors,
}

/// The writing end of a verb's output.
#[derive(Debug, Clone)]
pub(crate) struct PieceSender {
    sender: mpsc::UnboundedSender<(VerbStream, Vec<u8>)>,
    unread: Arc<AtomicUsize>,
    most: usize,
}

/// The reading end of a verb's output.
#[derive(Debug)]
pub(crate) struct PieceReceiver {
    receiver: mpsc::UnboundedReceiver<(VerbStream, Vec<u8>)>,
    unread: Arc<AtomicUsize>,
    /// A piece of the other stream that was read too early.
    kept: Option<(VerbStream, Vec<u8>)>,
}

/// Returns the two ends of a verb's output.
pub(crate) fn output_pieces() -> (PieceSender, PieceReceiver) {
    output_pieces_within(MOST_UNREAD)
}

/// Returns the two ends of a verb's output, of which at most `most` bytes wait for the reader.
pub(crate) fn output_pieces_within(most: usize) -> (PieceSender, PieceReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    (
        PieceSender { sender, unread: unread.clone(), most },
        PieceReceiver { receiver, unread, kept: None },
    )
}

impl PieceSender {
    /// Sends bytes to the reader. Returns false if the reader is gone or too slow.
    pub(crate) fn send(&self, stream: VerbStream, bytes: &[u8]) -> bool {
        let waiting = self.unread.fetch_add(bytes.len(), Ordering::Relaxed);
        waiting <= self.most && self.sender.send((stream, bytes.to_vec())).is_ok()
    }

    /// Returns true if the reader is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl io::Write for PieceSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.send(VerbStream::Output, bytes) {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PieceReceiver {
    /// Returns the next piece of output, or `None` after the last piece.
    pub(crate) async fn next(&mut self) -> Option<(VerbStream, Vec<u8>)> {
        if let Some(kept) = self.kept.take() {
            return Some(kept);
        }
        let piece = self.receiver.recv().await?;
        self.unread.fetch_sub(piece.1.len(), Ordering::Relaxed);
        Some(piece)
    }

    /// Appends to `bytes` the further pieces of `stream` that have arrived, up to about 64 KiB.
    pub(crate) fn take_more(&mut self, stream: VerbStream, bytes: &mut Vec<u8>) {
        while bytes.len() < 64 * 1024
            && self.kept.is_none()
            && let Ok((of, more)) = self.receiver.try_recv()
        {
            self.unread.fetch_sub(more.len(), Ordering::Relaxed);
            if of == stream {
                bytes.extend(more);
            } else {
                self.kept = Some((of, more));
            }
        }
    }
}
