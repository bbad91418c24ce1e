//! A reader for the lines of `add --stdin`.
//!
//! Invariant: every line that is not blank becomes a job or a refusal with its line number,
//! whatever its content and length. If no more input is available, the batch is sent at once. So
//! the lines of a slow writer are added as they arrive.

use std::io::{BufRead, BufReader, Read};

use tokio::sync::mpsc;

use crate::cli::failure::CliFailure;
use schedd_core::config;
use schedd_core::config::{MAX_JSON_BYTES, NamedJob};
use schedd_schedule::time::zone::Zone;

/// The number of jobs in a full batch.
pub(super) const BATCH: usize = 500;
/// The number of bytes of input with which a batch is full.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A batch of lines that were read and checked.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The jobs of accepted lines, each with its line number.
    pub(super) jobs: Vec<(usize, NamedJob)>,
    /// The refused lines, each with the line number and the reason.
    pub(super) refused: Vec<(usize, CliFailure)>,
    /// The total length in bytes of the lines in `jobs`.
    bytes: usize,
    /// The bytes of input that this batch covers, including blank lines and line ends.
    pub(super) consumed: u64,
}

impl Batch {
    /// Returns the number of lines in the batch that became a job or a refusal.
    pub(super) fn lines(&self) -> usize {
        self.jobs.len() + self.refused.len()
    }

    fn is_full(&self) -> bool {
        self.lines() >= BATCH || self.bytes >= BATCH_BYTES
    }

    /// Appends the next batch to this batch.
    pub(super) fn append(&mut self, mut next: Self) {
        self.jobs.append(&mut next.jobs);
        self.refused.append(&mut next.refused);
        self.bytes += next.bytes;
        self.consumed += next.consumed;
    }
}

/// Reads lines and sends them as batches of checked jobs, until the end of input, or until the
/// receiver is dropped.
pub(super) fn read_batches(input: impl Read, host_zone: &Zone, sender: &mpsc::Sender<Batch>) {
    let mut input = BufReader::with_capacity(MAX_JSON_BYTES, input);
    let mut batch = Batch::default();
    for number in 1.. {
        let read = read_line(&mut input).map(|(line, length)| {
            batch.consumed += length;
            line
        });
        let is_end = matches!(read, Ok(Line::End) | Err(_));
        match read {
            Ok(Line::Text(text)) => {
                batch.bytes += text.len();
                match compile(&text, host_zone) {
                    Some(Ok(job)) => batch.jobs.push((number, job)),
                    Some(Err(why)) => batch.refused.push((number, why)),
                    None => {}
                }
            }
            Ok(Line::TooLong) => {
                let why = format!(
                    "the line has more than {MAX_JSON_BYTES} bytes, wanted at most 320 KiB"
                );
                batch.refused.push((number, CliFailure::Invalid(why)));
            }
            Ok(Line::End) => {}
            Err(error) => batch.refused.push((number, CliFailure::Input(error))),
        }
        let may_block = input.buffer().is_empty();
        if (batch.is_full() || may_block && batch.lines() > 0)
            && sender.blocking_send(std::mem::take(&mut batch)).is_err()
        {
            return;
        }
        if is_end {
            return;
        }
    }
}

/// Returns the job that a line defines, or the problems of an invalid line. Returns `None` for a
/// blank line.
fn compile(line: &[u8], host_zone: &Zone) -> Option<Result<NamedJob, CliFailure>> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text.trim(),
        Err(error) => {
            return Some(Err(CliFailure::Invalid(format!(
                "the line is not UTF-8 at byte {}, wanted JSON in UTF-8",
                error.valid_up_to()
            ))));
        }
    };
    if text.is_empty() {
        return None;
    }
    Some(config::job_from_json(text, host_zone).map_err(CliFailure::Keys))
}

/// The result of reading one line: its text, a line that is too long, or the end of input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

/// Reads the next line. Returns the line without its line end, and its length in bytes including
/// the line end. The text of a line that is too long is dropped.
fn read_line(input: &mut impl BufRead) -> std::io::Result<(Line, u64)> {
    let limit = MAX_JSON_BYTES + 1;
    let mut line = Vec::new();
    let mut limited = input.take(u64::try_from(limit).unwrap_or(u64::MAX));
    let length = limited.read_until(b'\n', &mut line)? as u64;
    if length == 0 {
        return Ok((Line::End, 0));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok((Line::Text(line), length));
    }
    if line.len() < limit {
        return Ok((Line::Text(line), length));
    }
    let skipped = input.skip_until(b'\n')? as u64;
    Ok((Line::TooLong, length + skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(input: &[u8]) -> Vec<Batch> {
        let (sender, mut receiver) = mpsc::channel(1000);
        read_batches(input, &Zone::utc(), &sender);
        drop(sender);
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn lines_keep_their_numbers_whatever_is_between_them() {
        let input = b"{\"shell\": \"a\"}\n\n  \nnonsense\n\xff\n{\"shell\": \"b\"}";
        let read = batches(input);
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].jobs.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 6]);
        assert_eq!(read[0].refused.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(read[0].consumed, input.len() as u64);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_read() {
        let mut input = vec![b'x'; MAX_JSON_BYTES + 5];
        input.extend(b"\n{\"shell\": \"b\"}\n");
        let read = batches(&input);
        assert!(read[0].refused[0].1.lines()[0].contains("320 KiB"));
        assert_eq!(read[0].jobs[0].0, 2);
        assert_eq!(read[0].consumed, input.len() as u64);
    }

    #[test]
    fn many_lines_come_in_batches() {
        let input = b"{\"shell\": \"a\"}\n".repeat(1_200);
        assert_eq!(
            batches(&input).iter().map(|batch| batch.jobs.len()).collect::<Vec<_>>(),
            [500, 500, 200]
        );
    }

    #[test]
    fn no_lines_are_no_batches() {
        assert!(batches(b"").is_empty() && batches(b"\n\n").is_empty());
    }
}
