//! The new part of a growing output. Redis keeps only the beginning and the end of an output, so
//! bytes may be dropped before `logs -f` reads them.
//!
//! Invariant: each byte of the output is returned once or counted as missed, in the order of
//! writing.

use schedd_store::{OutputMark, OutputSoFar, OutputStream};

/// The progress in reading an output: the position up to which the output was read.
#[derive(Debug, Default)]
pub(super) struct Growth {
    last: OutputSoFar,
    /// The number of bytes at the beginning of the output that are not returned.
    left_out: u64,
}

/// A piece of output that is new since the last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogPiece {
    /// New output begins here. The output shown before belonged to an earlier use of this attempt
    /// number.
    Anew,
    /// The new bytes of one stream.
    Bytes(OutputStream, Vec<u8>),
    /// The number of bytes that were dropped before they were read.
    Missed(u64),
}

impl Growth {
    /// Returns the progress of a reader who has the first `position` bytes of the output.
    pub(super) fn behind(position: u64) -> Self {
        Self { left_out: position, ..Self::default() }
    }

    /// Returns the size of the output at the last read.
    pub(super) fn mark(&self) -> OutputMark {
        self.last.mark
    }

    /// Returns the new pieces of the output `now`, which earlier calls did not return.
    pub(super) fn take(&mut self, now: OutputSoFar) -> Vec<LogPiece> {
        let mut pieces = Vec::new();
        let is_longer =
            length(&now.head) >= length(&self.last.head) && total(&now) >= total(&self.last);
        if !is_longer
            || !bytes(&now.head).zip(bytes(&self.last.head)).all(|(one, other)| one == other)
        {
            *self = Self::default();
            pieces.push(LogPiece::Anew);
        }
        if now.head == self.last.head && now.tail == self.last.tail {
            // A node may drop bytes before it stores them. Then only `dropped_bytes` grows.
            push_missed(&mut pieces, now.dropped_bytes.saturating_sub(self.last.dropped_bytes));
        } else {
            let seen = total(&self.last);
            let after_head = length(&now.head);
            let tail_at = after_head.saturating_add(now.dropped_bytes);
            push_from(&mut pieces, &now.head, seen);
            push_missed(&mut pieces, tail_at.saturating_sub(seen.max(after_head)));
            push_from(&mut pieces, &now.tail, seen.saturating_sub(tail_at));
        }
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > total(&now) {
            // The reader has another output: the number of the attempt is used again.
            pieces.insert(0, LogPiece::Anew);
        } else {
            leave_out(&mut pieces, left_out);
        }
        self.last = now;
        pieces
    }
}

/// Removes the first `count` bytes from `pieces`.
fn leave_out(pieces: &mut Vec<LogPiece>, mut count: u64) {
    for piece in &mut *pieces {
        match piece {
            LogPiece::Anew => {}
            LogPiece::Bytes(_, bytes) => {
                let cut = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len());
                bytes.drain(..cut);
                count -= cut as u64;
            }
            LogPiece::Missed(missed) => {
                let cut = count.min(*missed);
                *missed -= cut;
                count -= cut;
            }
        }
    }
    pieces.retain(|piece| match piece {
        LogPiece::Anew => true,
        LogPiece::Bytes(_, bytes) => !bytes.is_empty(),
        LogPiece::Missed(count) => *count > 0,
    });
}

fn bytes(part: &[(OutputStream, Vec<u8>)]) -> impl Iterator<Item = (OutputStream, u8)> {
    part.iter().flat_map(|(stream, bytes)| bytes.iter().map(|byte| (*stream, *byte)))
}

fn length(part: &[(OutputStream, Vec<u8>)]) -> u64 {
    part.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

fn total(output: &OutputSoFar) -> u64 {
    length(&output.head).saturating_add(output.dropped_bytes).saturating_add(length(&output.tail))
}

fn push_missed(pieces: &mut Vec<LogPiece>, count: u64) {
    if count > 0 {
        pieces.push(LogPiece::Missed(count));
    }
}

/// Appends the bytes of `part` to `pieces`, except the first `skipped` bytes.
fn push_from(pieces: &mut Vec<LogPiece>, part: &[(OutputStream, Vec<u8>)], mut skipped: u64) {
    for (stream, bytes) in part {
        let from = usize::try_from(skipped).unwrap_or(usize::MAX).min(bytes.len());
        skipped -= from as u64;
        if let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
            pieces.push(LogPiece::Bytes(*stream, rest.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(head: &str, dropped_bytes: u64, tail: &str) -> OutputSoFar {
        // Capital letters stand for standard error.
        let part = |text: &str| {
            let mut frames: Vec<(OutputStream, Vec<u8>)> = Vec::new();
            for byte in text.bytes() {
                let stream = if byte.is_ascii_uppercase() {
                    OutputStream::Stderr
                } else {
                    OutputStream::Stdout
                };
                match frames.last_mut() {
                    Some((last, bytes)) if *last == stream => bytes.push(byte),
                    _ => frames.push((stream, vec![byte])),
                }
            }
            frames
        };
        OutputSoFar { head: part(head), tail: part(tail), dropped_bytes, ..OutputSoFar::default() }
    }

    /// Returns the pieces that are shown for successive states of an output, as text.
    fn shown(seen: &[(&str, u64, &str)]) -> String {
        shown_behind(0, seen)
    }

    /// Returns the pieces that are shown to a reader who has the first `position` bytes.
    fn shown_behind(position: u64, seen: &[(&str, u64, &str)]) -> String {
        let mut growth = Growth::behind(position);
        let pieces = seen
            .iter()
            .flat_map(|(head, dropped, tail)| growth.take(output(head, *dropped, tail)))
            .collect::<Vec<_>>();
        let text = |piece: &LogPiece| match piece {
            LogPiece::Anew => "|".to_owned(),
            LogPiece::Bytes(_, bytes) => String::from_utf8(bytes.clone()).unwrap(),
            LogPiece::Missed(count) => format!("<{count}>"),
        };
        pieces.iter().map(text).collect()
    }

    #[test]
    fn each_byte_is_shown_once_or_counted() {
        assert_eq!(shown(&[("ab", 0, ""), ("abCD", 0, "e"), ("abCD", 0, "ef")]), "abCDef");
        assert_eq!(shown(&[("abcd", 5, "xy")]), "abcd<5>xy");
        assert_eq!(shown(&[("abcd", 0, "ef"), ("abcd", 3, "hi")]), "abcdef<1>hi");
        assert_eq!(shown(&[("abcd", 0, "ef"), ("abcd", 1, "fg"), ("abcd", 2, "gh")]), "abcdefgh");
        assert_eq!(shown(&[("ab", 0, ""), ("abcd", 4, "yz")]), "abcd<4>yz");
        assert_eq!(shown(&[("abcd", 0, "ef"), ("abcd", 0, "ef")]), "abcdef");
    }

    #[test]
    fn bytes_thrown_away_on_the_way_are_reported_and_nothing_is_shown_again() {
        assert_eq!(shown(&[("abcd", 0, "ef"), ("abcd", 7, "ef")]), "abcdef<7>");
    }

    #[test]
    fn an_attempt_whose_number_is_used_again_is_shown_from_its_beginning() {
        assert_eq!(shown(&[("abcd", 0, "ef"), ("xy", 0, "")]), "abcdef|xy");
        assert_eq!(shown(&[("abcd", 0, ""), ("xbcdefgh", 0, "")]), "abcd|xbcdefgh");
    }

    #[test]
    fn a_reader_who_has_the_beginning_gets_the_rest() {
        let seen = [("abCD", 0, "e"), ("abCD", 4, "yz")];
        assert_eq!(shown_behind(0, &seen), "abCDe<3>yz");
        assert_eq!(shown_behind(3, &seen), "De<3>yz");
        assert_eq!(shown_behind(5, &seen), "<3>yz");
        assert_eq!(shown_behind(6, &[("abCD", 4, "yz")]), "<2>yz");
        assert_eq!(shown_behind(9, &[("abCD", 4, "yz")]), "z");
        assert_eq!(shown_behind(10, &[("abCD", 4, "yz")]), "");
        assert_eq!(shown_behind(11, &[("abCD", 4, "yz")]), "|abCD<4>yz", "it is another output");
    }

    #[test]
    fn streams_keep_their_order() {
        let mut growth = Growth::default();
        let pieces = growth.take(output("aBc", 0, ""));
        let streams: Vec<OutputStream> =
            pieces
                .iter()
                .map(|piece| {
                    if let LogPiece::Bytes(stream, _) = piece {
                        *stream
                    } else {
                        panic!("{piece:?}")
                    }
                })
                .collect();
        assert_eq!(streams, [OutputStream::Stdout, OutputStream::Stderr, OutputStream::Stdout]);
    }
}
