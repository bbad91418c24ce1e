//! The frames of the messages between the daemon and its keeper on the socket.
//!
//! A frame has its length in 4 bytes (little endian) and a kind in 1 byte. The rest of the frame is
//! JSON. For output, the rest is the run's key and the bytes, and the kind names the stream.
//!
//! Invariant: no frame is longer than [`LONGEST`], in either direction. A frame that cannot be read
//! is an error, never a panic.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::keeper_messages::{KeeperNews, KeeperOrder, Key, RunReport};
use schedd_core::domain::run::excerpt::{ExcerptStream, Output};

/// The maximum length of a frame, in bytes. It exceeds the arguments and environment that the
/// kernel accepts together, even if each byte is escaped.
pub(crate) const LONGEST: usize = 16 * 1024 * 1024;

/// The number of bytes that are read from the socket at once, and up to which messages are written
/// at once.
pub(crate) const BUFFER: usize = 64 * 1024;

const JSON: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

#[derive(Debug, Serialize, Deserialize)]
enum NewsInJson {
    Pong,
    Started(Key, i32),
    Dropped(Key, u64),
    Ended(Key, RunReport),
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a message between daemon and keeper cannot be read: {what}"),
    )
}

fn push_frame(to: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the arguments and the environment have {length} bytes, wanted at most {LONGEST}"
            ),
        ));
    };
    to.extend(prefix.to_le_bytes());
    to.push(kind);
    for part in parts {
        to.extend(*part);
    }
    Ok(())
}

/// Returns the frame of an order. Fails if the frame is too long.
pub fn order_frame(order: &KeeperOrder) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    push_frame(&mut frame, JSON, &[&serde_json::to_vec(order)?])?;
    Ok(frame)
}

/// Returns the frame of a message from the keeper. Fails if the frame is too long.
pub fn news_frame(news: KeeperNews) -> io::Result<Vec<u8>> {
    let news = match news {
        KeeperNews::Started(key, pid) => NewsInJson::Started(key, pid),
        KeeperNews::Dropped(key, count) => NewsInJson::Dropped(key, count),
        KeeperNews::Ended(key, report) => NewsInJson::Ended(key, report),
        KeeperNews::Pong => NewsInJson::Pong,
        KeeperNews::Output(key, stream, bytes) => {
            let mut frame = Vec::new();
            push_output(&mut frame, key, stream, &bytes)?;
            return Ok(frame);
        }
    };
    let mut frame = Vec::new();
    push_frame(&mut frame, JSON, &[&serde_json::to_vec(&news)?])?;
    Ok(frame)
}

fn push_output(to: &mut Vec<u8>, key: Key, stream: ExcerptStream, bytes: &[u8]) -> io::Result<()> {
    let kind = match stream {
        ExcerptStream::Stdout => STDOUT,
        ExcerptStream::Stderr => STDERR,
    };
    push_frame(to, kind, &[&key.to_le_bytes(), bytes])
}

/// Returns the frames of a run's output. A frame between the head and the tail has the number of
/// dropped bytes.
pub(crate) fn output_frames(key: Key, output: &Output) -> io::Result<Vec<u8>> {
    let mut frames = Vec::new();
    for chunk in &output.head {
        push_output(&mut frames, key, chunk.stream, &chunk.bytes)?;
    }
    if output.dropped_bytes > 0 {
        frames.extend(news_frame(KeeperNews::Dropped(key, output.dropped_bytes))?);
    }
    for chunk in &output.tail {
        push_output(&mut frames, key, chunk.stream, &chunk.bytes)?;
    }
    Ok(frames)
}

/// Reads the next frame. Returns `None` at the end of the stream. The caller must not drop the
/// future before it ends.
async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut prefix = [0_u8; 4];
    match from.read_exact(&mut prefix).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = usize::try_from(u32::from_le_bytes(prefix)).map_err(broken)?;
    if length > LONGEST {
        return Err(broken(format_args!(
            "the message has {length} bytes, wanted at most {LONGEST}"
        )));
    }
    // The buffer grows as bytes arrive, not to the length that the prefix claims.
    let mut frame = Vec::with_capacity(length.min(BUFFER));
    from.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() == length {
        Ok(Some(frame))
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, broken("the message ends early")))
    }
}

/// Reads the next order. Returns `None` when the daemon is gone. Fails with `UnexpectedEof` if the
/// daemon went away while it sent an order.
pub async fn read_order(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<KeeperOrder>> {
    let Some(frame) = read_frame(from).await? else { return Ok(None) };
    match frame.split_first() {
        Some((&JSON, json)) => serde_json::from_slice(json).map(Some).map_err(broken),
        Some((kind, _)) => Err(broken(format_args!("unknown order kind {kind}"))),
        None => Err(broken("the message is empty")),
    }
}

/// Reads the next message from the keeper. Returns `None` when the keeper is gone.
pub async fn read_news(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<KeeperNews>> {
    let Some(frame) = read_frame(from).await? else { return Ok(None) };
    let stream = match frame.split_first() {
        Some((&JSON, json)) => {
            return Ok(Some(match serde_json::from_slice(json).map_err(broken)? {
                NewsInJson::Started(key, pid) => KeeperNews::Started(key, pid),
                NewsInJson::Dropped(key, count) => KeeperNews::Dropped(key, count),
                NewsInJson::Ended(key, report) => KeeperNews::Ended(key, report),
                NewsInJson::Pong => KeeperNews::Pong,
            }));
        }
        Some((&STDOUT, _)) => ExcerptStream::Stdout,
        Some((&STDERR, _)) => ExcerptStream::Stderr,
        Some((kind, _)) => return Err(broken(format_args!("unknown news kind {kind}"))),
        None => return Err(broken("the message is empty")),
    };
    let (key, bytes) = frame
        .get(1..)
        .and_then(<[u8]>::split_first_chunk::<8>)
        .ok_or_else(|| broken("the message has no key"))?;
    Ok(Some(KeeperNews::Output(Key::from_le_bytes(*key), stream, bytes.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::keeper_messages::ProcessEnd;

    #[tokio::test]
    async fn news_read_back_as_they_were_written() {
        let report = RunReport { exit_code: Some(3), ..RunReport::of(ProcessEnd::ByItself, "é") };
        for news in [
            || KeeperNews::Started(7, 42),
            || KeeperNews::Output(u64::MAX, ExcerptStream::Stderr, vec![0, 255, 10]),
            || KeeperNews::Dropped(1, u64::MAX),
            || KeeperNews::Pong,
        ] {
            assert_eq!(read_news(&mut &*news_frame(news()).unwrap()).await.unwrap(), Some(news()));
        }
        let frame = news_frame(KeeperNews::Ended(1, report.clone())).unwrap();
        assert_eq!(read_news(&mut &*frame).await.unwrap(), Some(KeeperNews::Ended(1, report)));
        assert_eq!(read_news(&mut &[][..]).await.unwrap(), None);
    }

    #[tokio::test]
    async fn no_bytes_at_all_make_a_reader_panic() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            if let (Some(kind), true) = (bytes.get_mut(4), random.bool()) {
                *kind = random.u8(0..4);
                let length = u32::try_from(random.usize(0..40)).unwrap();
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            let _ = read_news(&mut &*bytes).await;
            let _ = read_order(&mut &*bytes).await;
        }
        let too_long = [0xff, 0xff, 0xff, 0xff, 0];
        assert!(
            read_order(&mut &too_long[..])
                .await
                .unwrap_err()
                .to_string()
                .contains("wanted at most")
        );
    }
}
