//! The beginning and the end of a job's output, in bounded memory. Bytes of both streams are kept
//! in the order in which they came.
//!
//! Invariant: kept bytes + dropped bytes = appended bytes. At most as many bytes are kept as
//! [`OutputBounds`] allows.
//!
//! The order of the streams costs two bytes for each change of stream. So an output that alternates
//! single bytes takes at most three times as much memory.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The number of bytes of an output that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputBounds {
    /// The number of bytes kept from the beginning of the output.
    pub head: usize,
    /// The number of bytes kept from the end of the output.
    pub tail: usize,
}

impl Default for OutputBounds {
    /// Returns the bounds of 16 KiB for the beginning and 48 KiB for the end.
    fn default() -> Self {
        Self { head: 16 * 1024, tail: 48 * 1024 }
    }
}

/// A stream of a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExcerptStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Consecutive bytes that a process wrote to one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream the bytes were written to.
    pub stream: ExcerptStream,
    /// The bytes as they were written; not necessarily UTF-8.
    pub bytes: Vec<u8>,
}

/// The kept part of a job's output. The dropped bytes lie between `head` and `tail`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The beginning of the output.
    pub head: Vec<Chunk>,
    /// The end of the output, without the bytes in `head`.
    pub tail: Vec<Chunk>,
    /// The number of bytes dropped between `head` and `tail`.
    pub dropped_bytes: u64,
}

impl Output {
    /// Returns the kept bytes of one stream, from the head and the tail.
    pub fn stream(&self, stream: ExcerptStream) -> Vec<u8> {
        let chunks = self.head.iter().chain(&self.tail);
        chunks
            .filter(|chunk| chunk.stream == stream)
            .flat_map(|chunk| chunk.bytes.iter().copied())
            .collect()
    }
}

/// A receiver of a run's output. The task that listens to the keeper calls the receiver, so the
/// receiver must not block.
pub trait OutputSink: Send + Sync {
    /// Appends `bytes` that `stream` wrote.
    fn append(&self, stream: ExcerptStream, bytes: &[u8]);
    /// Notes that `count` bytes of output were dropped after the bytes appended last.
    fn add_dropped(&self, count: u64);
}

/// The kept part of an output that still grows.
#[derive(Debug, Default)]
pub struct Excerpt {
    bounds: OutputBounds,
    head: Sequence,
    tail: Sequence,
    dropped: u64,
}

impl Excerpt {
    /// Creates an empty excerpt with these bounds.
    pub fn new(bounds: OutputBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Appends bytes that `stream` wrote.
    pub fn append(&mut self, stream: ExcerptStream, bytes: &[u8]) {
        let left = self.bounds.head.saturating_sub(self.head.len());
        // Once bytes were dropped, later bytes no longer belong to the beginning.
        let left = if self.dropped == 0 { left } else { 0 };
        let (first, rest) = bytes.split_at(left.min(bytes.len()));
        self.head.push(stream, first);
        let OutputBounds { tail, .. } = self.bounds;
        let skipped = rest.len().saturating_sub(tail);
        self.tail.push(stream, rest.get(skipped..).unwrap_or_default());
        let over = self.tail.len().saturating_sub(tail);
        self.tail.forget_first(over);
        self.add_dropped(u64::try_from(skipped.saturating_add(over)).unwrap_or(u64::MAX));
    }

    /// Counts bytes that were dropped before they reached this excerpt.
    pub fn add_dropped(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
    }

    /// Returns a copy of the kept bytes.
    pub fn output(&self) -> Output {
        Output { head: self.head.chunks(), tail: self.tail.chunks(), dropped_bytes: self.dropped }
    }
}

/// The kept bytes of an output, and the stream of each span of these bytes.
#[derive(Debug, Default)]
struct Sequence {
    bytes: VecDeque<u8>,
    spans: VecDeque<Span>,
}

/// The length of consecutive bytes of one stream, and the stream, in two bytes. The top bit is set
/// for standard error.
#[derive(Debug, Clone, Copy)]
struct Span(u16);

impl Span {
    const LONGEST: u16 = 0x7fff;

    fn new(stream: ExcerptStream, length: u16) -> Self {
        match stream {
            ExcerptStream::Stdout => Self(length & Self::LONGEST),
            ExcerptStream::Stderr => Self(length | !Self::LONGEST),
        }
    }

    fn stream(self) -> ExcerptStream {
        if self.0 & !Self::LONGEST == 0 { ExcerptStream::Stdout } else { ExcerptStream::Stderr }
    }

    fn length(self) -> u16 {
        self.0 & Self::LONGEST
    }
}

impl Sequence {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn push(&mut self, stream: ExcerptStream, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let mut left = bytes.len();
        if let Some(last) = self.spans.back_mut().filter(|last| last.stream() == stream) {
            let taken = left.min(usize::from(Span::LONGEST - last.length()));
            *last = Span::new(stream, last.length() + u16::try_from(taken).unwrap_or(0));
            left -= taken;
        }
        while left > 0 {
            let length = u16::try_from(left).unwrap_or(u16::MAX).min(Span::LONGEST);
            self.spans.push_back(Span::new(stream, length));
            left -= usize::from(length);
        }
    }

    fn forget_first(&mut self, count: usize) {
        let mut left = count.min(self.bytes.len());
        self.bytes.drain(..left);
        while let Some(first) = self.spans.front_mut().filter(|_| left > 0) {
            let length = usize::from(first.length());
            if length > left {
                *first = Span::new(first.stream(), u16::try_from(length - left).unwrap_or(0));
                return;
            }
            left -= length;
            self.spans.pop_front();
        }
    }

    fn chunks(&self) -> Vec<Chunk> {
        let mut bytes = self.bytes.iter().copied();
        let mut chunks: Vec<Chunk> = Vec::new();
        for span in &self.spans {
            let part = bytes.by_ref().take(usize::from(span.length()));
            match chunks.last_mut().filter(|last| last.stream == span.stream()) {
                Some(last) => last.bytes.extend(part),
                None => chunks.push(Chunk { stream: span.stream(), bytes: part.collect() }),
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: usize = 16 * 1024;
    const TAIL: usize = 48 * 1024;

    fn size(chunks: &[Chunk]) -> usize {
        chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    #[test]
    fn the_streams_keep_the_order_they_came_in_and_neighbours_merge() {
        let mut excerpt = Excerpt::default();
        for (stream, text) in [
            (ExcerptStream::Stdout, "a"),
            (ExcerptStream::Stdout, "b"),
            (ExcerptStream::Stderr, "c"),
            (ExcerptStream::Stdout, "d"),
        ] {
            excerpt.append(stream, text.as_bytes());
        }
        let chunk = |stream, text: &str| Chunk { stream, bytes: text.as_bytes().to_vec() };
        let wanted = vec![
            chunk(ExcerptStream::Stdout, "ab"),
            chunk(ExcerptStream::Stderr, "c"),
            chunk(ExcerptStream::Stdout, "d"),
        ];
        assert_eq!(excerpt.output(), Output { head: wanted, tail: vec![], dropped_bytes: 0 });
        assert_eq!(excerpt.output().stream(ExcerptStream::Stdout), b"abd");
    }

    #[test]
    fn the_first_16_kib_and_the_last_48_kib_stay_whatever_the_size_of_the_pieces() {
        let text: Vec<u8> = (0..300_001_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        for piece in [1, 7, 4096, 40_000, 65_536, text.len()] {
            let mut excerpt = Excerpt::default();
            for part in text.chunks(piece) {
                excerpt.append(ExcerptStream::Stdout, part);
            }
            let output = excerpt.output();
            assert_eq!(output.head[0].bytes, text[..HEAD], "pieces of {piece}");
            assert_eq!(output.tail[0].bytes, text[text.len() - TAIL..], "pieces of {piece}");
            assert_eq!(output.dropped_bytes, (text.len() - HEAD - TAIL) as u64);
        }
    }

    #[test]
    fn a_million_single_bytes_on_alternating_streams_stay_bounded_and_counted() {
        let mut excerpt = Excerpt::default();
        for n in 0..1_000_000_u32 {
            let stream = if n % 2 == 0 { ExcerptStream::Stdout } else { ExcerptStream::Stderr };
            excerpt.append(stream, &[u8::try_from(n % 256).unwrap()]);
        }
        let spans = excerpt.head.spans.capacity() + excerpt.tail.spans.capacity();
        let bytes = excerpt.head.bytes.capacity() + excerpt.tail.bytes.capacity();
        assert!(bytes + spans * size_of::<Span>() <= 256 * 1024, "{bytes} bytes, {spans} spans");
        let output = excerpt.output();
        assert_eq!(size(&output.head) + size(&output.tail), HEAD + TAIL);
        assert_eq!(output.dropped_bytes, 1_000_000 - (HEAD + TAIL) as u64);
        assert_eq!(
            output.tail.last().unwrap(),
            &Chunk { stream: ExcerptStream::Stderr, bytes: vec![63] }
        );
    }

    #[test]
    fn other_bounds_hold_to_the_byte_and_none_at_all_keeps_nothing() {
        for (head, tail) in [(3, 4), (0, 4), (3, 0), (0, 0)] {
            let mut excerpt = Excerpt::new(OutputBounds { head, tail });
            b"0123456789".iter().for_each(|byte| excerpt.append(ExcerptStream::Stdout, &[*byte]));
            let output = excerpt.output();
            let wanted = [&b"0123456789"[..head], &b"0123456789"[10 - tail..]].concat();
            assert_eq!(
                (output.stream(ExcerptStream::Stdout), output.dropped_bytes),
                (wanted, 10 - (head + tail) as u64)
            );
        }
    }

    #[test]
    fn an_excerpt_of_excerpts_is_the_excerpt_of_the_whole() {
        let text: Vec<u8> = (0..400_000_u32).map(|n| u8::try_from(n % 253).unwrap()).collect();
        let (mut near, mut whole) = (Excerpt::default(), Excerpt::default());
        for part in [&text[..10_000], &text[10_000..350_000], &text[350_000..]] {
            whole.append(ExcerptStream::Stderr, part);
            let mut far = Excerpt::default();
            far.append(ExcerptStream::Stderr, part);
            let far = far.output();
            far.head.iter().for_each(|chunk| near.append(chunk.stream, &chunk.bytes));
            near.add_dropped(far.dropped_bytes);
            far.tail.iter().for_each(|chunk| near.append(chunk.stream, &chunk.bytes));
        }
        assert_eq!(near.output(), whole.output());
    }
}
