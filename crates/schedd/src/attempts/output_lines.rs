//! The output of an attempt as events for the log, line by line.
//!
//! Invariant: memory is bounded whatever the job prints. A line that does not end is logged in
//! pieces. Nothing in this module waits for a reader of the log.

use tracing::Span;

use schedd_core::domain::run::excerpt::ExcerptStream;

/// The log target that marks an event as a line that a job wrote.
pub const LOG_TARGET: &str = "schedd::job_output";

/// The length of the longest line that is logged whole, in bytes.
const LONGEST: usize = 8 * 1024;

/// The unfinished lines of an attempt, one for each stream.
#[derive(Debug)]
pub(super) struct OutputLines {
    /// The `tracing` span of the run. The lines are logged within this span.
    run: Span,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl OutputLines {
    /// Creates the unfinished lines, still empty, of an attempt whose lines are logged within the
    /// span `run`.
    pub(super) fn of(run: Span) -> Self {
        Self { run, stdout: Vec::new(), stderr: Vec::new() }
    }

    /// Appends bytes that `stream` wrote, and logs each complete line.
    pub(super) fn append(&mut self, stream: ExcerptStream, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let begun = match stream {
                ExcerptStream::Stdout => &mut self.stdout,
                ExcerptStream::Stderr => &mut self.stderr,
            };
            // A full line is cut only when another byte follows, because that byte may be the end
            // of the line.
            if begun.len() == LONGEST && rest.first() != Some(&b'\n') {
                let line = std::mem::take(begun);
                self.write_line(stream, &line);
                continue;
            }
            let left = LONGEST - begun.len();
            let end = rest.iter().take(left + 1).position(|byte| *byte == b'\n');
            let (part, behind) = rest.split_at(end.unwrap_or(left.min(rest.len())));
            begun.extend(part);
            rest = if end.is_some() { behind.get(1..).unwrap_or_default() } else { behind };
            if end.is_some() {
                let line = std::mem::take(begun);
                self.write_line(stream, &line);
            }
        }
    }

    /// Logs that `count` bytes of the output were left out.
    pub(super) fn add_dropped(&self, count: u64) {
        tracing::warn!(parent: &self.run, bytes = count, "A part of the output came too fast and was not logged.");
    }

    /// Logs the unfinished lines, because no more output comes.
    pub(super) fn finish(&mut self) {
        for (stream, line) in [
            (ExcerptStream::Stdout, std::mem::take(&mut self.stdout)),
            (ExcerptStream::Stderr, std::mem::take(&mut self.stderr)),
        ] {
            if !line.is_empty() {
                self.write_line(stream, &line);
            }
        }
    }

    fn write_line(&self, stream: ExcerptStream, line: &[u8]) {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        match stream {
            ExcerptStream::Stdout => {
                tracing::info!(target: LOG_TARGET, parent: &self.run, stream = "stdout", "{line}");
            }
            ExcerptStream::Stderr => {
                tracing::error!(target: LOG_TARGET, parent: &self.run, stream = "stderr", "{line}");
            }
        }
    }
}
