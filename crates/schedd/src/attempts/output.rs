//! The output of an attempt, shared between the task that fills it and the task that reports it
//! while the attempt runs.
//!
//! Invariant: the buffer keeps the beginning and the end of the output, each up to its bound. The
//! bytes of both streams are kept together, in the order of arrival. Every byte is either kept or
//! counted as dropped. Memory stays bounded whatever the job prints.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Span;

pub use super::output_lines::LOG_TARGET;
use super::output_lines::OutputLines;
use schedd_core::domain::run::excerpt::{Excerpt, ExcerptStream, Output, OutputBounds, OutputSink};
use schedd_core::domain::run::run_progress::RunProgress;

/// The output of one attempt. Clones share the same output.
#[derive(Debug, Clone, Default)]
pub struct OutputBuffer {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    excerpt: Mutex<Excerpt>,
    revision: AtomicU64,
    lines: Option<Mutex<OutputLines>>,
    /// The last reported progress, until it is taken to be written to Redis.
    news: Mutex<Option<RunProgress>>,
}

impl OutputBuffer {
    /// Creates an empty buffer that keeps at most the bytes that `bounds` allow.
    pub fn new(bounds: OutputBounds) -> Self {
        Self::with(bounds, None)
    }

    /// Creates an empty buffer that also writes each line to the log, within the span `run`.
    pub fn logged(bounds: OutputBounds, run: Span) -> Self {
        Self::with(bounds, Some(Mutex::new(OutputLines::of(run))))
    }

    fn with(bounds: OutputBounds, lines: Option<Mutex<OutputLines>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                excerpt: Mutex::new(Excerpt::new(bounds)),
                revision: AtomicU64::new(0),
                lines,
                news: Mutex::default(),
            }),
        }
    }

    /// Replaces the progress of the attempt, which is reported like its output.
    pub fn set_progress(&self, progress: RunProgress) {
        *self.inner.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// Returns the progress that was set since the last call. `None` if none was.
    pub fn take_progress(&self) -> Option<RunProgress> {
        self.inner.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with_lines(&self, with_lines: impl FnOnce(&mut OutputLines)) {
        if let Some(lines) = &self.inner.lines {
            with_lines(&mut lines.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Notes that no more output comes. A last line without an end is written to the log.
    pub fn finish(&self) {
        self.with_lines(OutputLines::finish);
    }

    /// Appends bytes that `stream` wrote.
    pub fn append(&self, stream: ExcerptStream, bytes: &[u8]) {
        self.change(|excerpt| excerpt.append(stream, bytes));
        self.with_lines(|lines| lines.append(stream, bytes));
    }

    /// Adds `count` to the number of dropped bytes, for bytes that never reached this buffer.
    pub fn add_dropped(&self, count: u64) {
        self.change(|excerpt| excerpt.add_dropped(count));
        self.with_lines(|lines| lines.add_dropped(count));
    }

    /// Appends bytes that `stream` wrote in an earlier start of the attempt. These bytes were
    /// logged in that start, so they are not logged again.
    pub fn put_back(&self, stream: ExcerptStream, bytes: &[u8]) {
        self.change(|excerpt| excerpt.append(stream, bytes));
    }

    /// Adds `count` to the number of dropped bytes, for bytes of an earlier start of the attempt.
    pub fn put_back_dropped(&self, count: u64) {
        self.change(|excerpt| excerpt.add_dropped(count));
    }

    /// Returns a copy of the output that is kept at present.
    pub fn snapshot(&self) -> Output {
        self.inner.excerpt.lock().unwrap_or_else(PoisonError::into_inner).output()
    }

    /// Returns a number that rises with each change of the output.
    pub fn revision(&self) -> u64 {
        self.inner.revision.load(Ordering::Acquire)
    }

    fn change(&self, change: impl FnOnce(&mut Excerpt)) {
        change(&mut self.inner.excerpt.lock().unwrap_or_else(PoisonError::into_inner));
        self.inner.revision.fetch_add(1, Ordering::Release);
    }
}

impl OutputSink for OutputBuffer {
    fn append(&self, stream: ExcerptStream, bytes: &[u8]) {
        OutputBuffer::append(self, stream, bytes);
    }

    fn add_dropped(&self, count: u64) {
        OutputBuffer::add_dropped(self, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_rises_with_each_change_and_clones_share_the_bytes() {
        let buffer = OutputBuffer::new(OutputBounds::default());
        let clone = buffer.clone();
        buffer.append(ExcerptStream::Stdout, b"a");
        let first = clone.revision();
        clone.add_dropped(2);
        assert!(first > 0 && buffer.revision() > first);
        assert_eq!(clone.snapshot().stream(ExcerptStream::Stdout), b"a");
        assert_eq!(buffer.snapshot().dropped_bytes, 2);
    }
}
