//! The output of a verb that this process runs for an HTTP request, as pieces for the task that
//! answers the request.
//!
//! Invariant: a bounded number of bytes waits for the reader. A verb whose reader is too slow gets the
//! same error as a verb whose standard output is closed, and the reader can tell that output is
//! missing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// The maximum number of bytes of output that is read after the verb has ended.
const MOST_UNREAD: usize = 32 * 1024 * 1024;
/// The maximum number of bytes of output that wait while the verb runs.
const MOST_STREAMED: usize = 4 * 1024 * 1024;
/// The longest time for which a verb waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks if the reader has made room.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    /// The standard error, without warnings.
    Errors,
    /// The warnings on standard error, a line each.
    Warnings,
}

/// The writing end of a verb's output.
#[derive(Debug, Clone)]
pub(crate) struct PieceSender {
    sender: mpsc::UnboundedSender<(VerbStream, Vec<u8>)>,
    shared: Arc<SharedState>,
    most: usize,
    /// The longest time for which a verb waits for its reader.
    patience: Duration,
}

/// The state that both ends share.
#[derive(Debug, Default)]
struct SharedState {
    /// The number of bytes that wait for the reader.
    unread: AtomicUsize,
    /// True if bytes were dropped, because the reader was too slow.
    is_cut: AtomicBool,
}

/// The reading end of a verb's output.
#[derive(Debug)]
pub(crate) struct PieceReceiver {
    receiver: mpsc::UnboundedReceiver<(VerbStream, Vec<u8>)>,
    shared: Arc<SharedState>,
    /// A piece of the other stream that was read too early.
    kept: Option<(VerbStream, Vec<u8>)>,
}

/// Returns the two ends of a verb's output that is read after the verb has ended.
pub(crate) fn output_pieces() -> (PieceSender, PieceReceiver) {
    pieces(MOST_UNREAD, Duration::ZERO)
}

/// Returns the two ends of a verb's output that is sent on while the verb runs. The verb waits for a
/// slow reader, in a thread that other tasks then do not need.
pub(crate) fn streamed_pieces() -> (PieceSender, PieceReceiver) {
    pieces(MOST_STREAMED, PATIENCE)
}

/// Returns the two ends of a verb's output, of which at most `most` bytes wait for the reader.
pub(crate) fn output_pieces_within(most: usize) -> (PieceSender, PieceReceiver) {
    pieces(most, Duration::ZERO)
}

fn pieces(most: usize, patience: Duration) -> (PieceSender, PieceReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::<SharedState>::default();
    (
        PieceSender { sender, shared: shared.clone(), most, patience },
        PieceReceiver { receiver, shared, kept: None },
    )
}

impl PieceSender {
    /// Sends bytes to the reader. Returns false if the reader is gone or too slow.
    pub(crate) fn send(&self, stream: VerbStream, bytes: &[u8]) -> bool {
        if !self.has_room() && !self.waits_for_room() {
            self.shared.is_cut.store(true, Ordering::Relaxed);
            return false;
        }
        self.shared.unread.fetch_add(bytes.len(), Ordering::Relaxed);
        self.sender.send((stream, bytes.to_vec())).is_ok()
    }

    fn has_room(&self) -> bool {
        self.shared.unread.load(Ordering::Relaxed) <= self.most
    }

    /// Waits until the reader has made room. Returns false if it has not.
    fn waits_for_room(&self) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        tokio::task::block_in_place(|| {
            let ends = Instant::now() + self.patience;
            while !self.has_room() && !self.is_closed() && Instant::now() < ends {
                std::thread::sleep(LOOK_EVERY);
            }
        });
        self.has_room()
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
    /// Returns true if output is missing, because this reader was too slow.
    pub(crate) fn is_cut(&self) -> bool {
        self.shared.is_cut.load(Ordering::Relaxed)
    }

    /// Returns the next piece of output, or `None` after the last piece.
    pub(crate) async fn next(&mut self) -> Option<(VerbStream, Vec<u8>)> {
        if let Some(kept) = self.kept.take() {
            return Some(kept);
        }
        let piece = self.receiver.recv().await?;
        self.shared.unread.fetch_sub(piece.1.len(), Ordering::Relaxed);
        Some(piece)
    }

    /// Appends to `bytes` the further pieces of `stream` that have arrived, up to about 64 KiB.
    pub(crate) fn take_more(&mut self, stream: VerbStream, bytes: &mut Vec<u8>) {
        while bytes.len() < 64 * 1024
            && self.kept.is_none()
            && let Ok((of, more)) = self.receiver.try_recv()
        {
            self.shared.unread.fetch_sub(more.len(), Ordering::Relaxed);
            if of == stream {
                bytes.extend(more);
            } else {
                self.kept = Some((of, more));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_of_followed_output_that_is_too_slow_is_cut_off() {
        let (sender, mut receiver) = output_pieces_within(10);
        assert!(sender.send(VerbStream::Output, &[1; 11]));
        assert!(!receiver.is_cut());
        assert!(!sender.send(VerbStream::Output, &[2]));
        assert!(receiver.is_cut());
        assert_eq!(receiver.next().await, Some((VerbStream::Output, vec![1; 11])));
        assert!(sender.send(VerbStream::Errors, &[3]), "there is room again");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_verb_waits_for_the_reader_of_its_streamed_output_and_loses_nothing() {
        const PIECE: usize = 1024 * 1024;
        let (sender, mut receiver) = streamed_pieces();
        let writer = tokio::spawn(async move {
            (0..20).all(|piece| sender.send(VerbStream::Output, &vec![piece; PIECE]))
        });
        let mut found = Vec::new();
        while let Some((_, bytes)) = receiver.next().await {
            found.push(bytes[0]);
        }
        assert!(writer.await.unwrap() && !receiver.is_cut());
        assert_eq!(found, (0..20).collect::<Vec<u8>>());
    }
}
