//! The form in which the output of a remote verb is sent: frames of one byte for the kind, four bytes
//! for the length (big-endian), and the data. The last frame is the exit code.

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Bytes of the standard output.
    Output,
    /// Bytes of the standard error.
    Errors,
    /// The exit code, one byte.
    Code,
}

impl FrameKind {
    const ALL: [Self; 3] = [Self::Output, Self::Errors, Self::Code];

    const fn byte(self) -> u8 {
        match self {
            Self::Output => 1,
            Self::Errors => 2,
            Self::Code => 3,
        }
    }
}

/// The content type of frames.
pub(crate) const FRAMES: &str = "application/vnd.schedd.output";

/// Returns a frame.
pub(crate) fn frame(kind: FrameKind, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut frame = vec![kind.byte()];
    frame.extend(length.to_be_bytes());
    frame.extend(&data[..length as usize]);
    frame
}

/// Takes the first whole frame from `bytes`. Returns `None` if more bytes are needed. An unknown kind
/// counts as output.
pub(crate) fn take_frame(bytes: &mut Vec<u8>) -> Option<(FrameKind, Vec<u8>)> {
    let head: [u8; 5] = bytes.get(..5)?.try_into().ok()?;
    let [kind, length @ ..] = head;
    let end = 5 + u32::from_be_bytes(length) as usize;
    if bytes.len() < end {
        return None;
    }
    let data = bytes[5..end].to_vec();
    bytes.drain(..end);
    let kind = FrameKind::ALL.into_iter().find(|known| known.byte() == kind);
    Some((kind.unwrap_or(FrameKind::Output), data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_from_any_pieces() {
        let sent =
            [(FrameKind::Output, &b"a\0b"[..]), (FrameKind::Errors, b""), (FrameKind::Code, &[7])];
        let all: Vec<u8> = sent.iter().flat_map(|(kind, data)| frame(*kind, data)).collect();
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for byte in all {
            bytes.push(byte);
            found.extend(take_frame(&mut bytes));
        }
        let found: Vec<(FrameKind, &[u8])> =
            found.iter().map(|(kind, data)| (*kind, &data[..])).collect();
        assert_eq!(found, sent);
        assert!(bytes.is_empty());
    }
}
