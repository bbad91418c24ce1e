//! What the daemon and its keeper say to each other, and how it is framed on the socket between them.
//!
//! Invariant: no frame is longer than [`LONGEST`], on either side; a frame that cannot be read is an error, never a panic.
//! A frame: its length in 4 bytes (little endian), a kind in 1 byte, then JSON, or for output the key, the stream, the bytes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::clock::BootInstant;
use super::excerpt::{Output, OutputBounds, Stream};
use super::variables::Variables;
use crate::domain::limits::Limits;

/// The longest frame: above what the kernel takes as arguments and environment together, even when each byte is escaped.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

const JSON: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// What names a run on one connection.
pub type Key = u64;

/// Daemon to keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The first frame, once.
    Serve {
        /// Where the mark goes when all are gone.
        ended_file: Option<PathBuf>,
        /// Named in the mark.
        node: String,
        /// Named in the mark.
        incarnation: String,
        /// How much of a run's output waits for the daemon. A daemon of before does not say it.
        #[serde(default)]
        output: OutputBounds,
        /// Where each run gets a cgroup of its own; none = they have none.
        cgroups: Option<PathBuf>,
    },
    /// Start a program.
    Start {
        /// The name for it from now on.
        key: Key,
        /// What to start.
        launch: Box<Launch>,
    },
    /// The lease was renewed.
    Extend {
        /// Which run.
        key: Key,
        /// Its new deadline.
        deadline: BootInstant,
    },
    /// Ask it to stop, then make it.
    Stop {
        /// Which run.
        key: Key,
    },
    /// Kill it at once: nobody waits for it any more.
    Abandon {
        /// Which run.
        key: Key,
    },
    /// Say that you are there.
    Ping,
}

/// A program to start and the bounds it lives in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The run's id; orphans are known by it.
    pub run: String,
    /// The lease's fence; orphans are known by it.
    pub fence: u64,
    /// The program and its arguments; at least one.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Variables,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Where it starts if `cwd` is not there or no directory; none = then it cannot start.
    #[serde(default)]
    pub cwd_else: Option<PathBuf>,
    /// Whom it becomes; none = it stays who the keeper is.
    pub owner: Option<Owner>,
    /// What it is held to. A daemon of before does not say it.
    #[serde(default)]
    pub limits: Limits,
    /// Its umask; none = the keeper's.
    pub umask: Option<u16>,
    /// What it reads on its standard input; none = nothing.
    pub stdin: Option<String>,
    /// How long its start may take: entering the directory, finding and executing the program. A daemon of before does not say it.
    #[serde(default = "start_within")]
    pub start_within: Duration,
    /// How long it may take, counted from the start.
    pub timeout: Duration,
    /// How long after TERM follows KILL.
    pub kill_grace: Duration,
    /// The lease's end: by then all of it is killed.
    pub deadline: BootInstant,
    /// How long before the deadline it gets TERM.
    pub margin: Duration,
}

fn start_within() -> Duration {
    Duration::from_secs(10)
}

/// A user, looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The number of the user; never 0.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// The numbers of all its groups.
    pub groups: Vec<u32>,
}

/// Keeper to daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// The program runs.
    Started(Key, i32),
    /// It wrote.
    Output(Key, Stream, Vec<u8>),
    /// It wrote so many bytes more that were not kept.
    Dropped(Key, u64),
    /// It is over and nothing of it is left.
    Ended(Key, Report),
    /// The answer to a ping.
    Pong,
}

#[derive(Debug, Serialize, Deserialize)]
enum NewsInJson {
    Pong,
    Started(Key, i32),
    Dropped(Key, u64),
    Ended(Key, Report),
}

/// How a run's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Why.
    pub end: End,
    /// The direct child's exit code; 126 or 127 when it could not start.
    pub exit_code: Option<i32>,
    /// The signal that ended the direct child.
    pub signal: Option<i32>,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// Whether it left processes behind that had to be killed.
    pub left_processes: bool,
    /// Whether one of its processes was killed because memory had run out, as its cgroup tells.
    #[serde(default)]
    pub out_of_memory: bool,
    /// What of the job was not there, where nothing started for want of it.
    #[serde(default)]
    pub wanting: Option<Wanting>,
}

/// What of a job a start can find missing, and a notice of it can go without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanting {
    /// Its directory, which is not there, cannot be entered or does not answer.
    Directory,
    /// Its program, likewise.
    Program,
}

impl Report {
    /// A report with no facts but why.
    pub(super) fn of(end: End, error: impl Into<String>) -> Self {
        Self {
            end,
            exit_code: None,
            signal: None,
            error: Some(error.into()),
            left_processes: false,
            out_of_memory: false,
            wanting: None,
        }
    }
}

/// Why a run's process is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It ended by itself.
    ByItself,
    /// It took too long and was killed.
    TimedOut,
    /// It was asked to stop.
    Stopped,
    /// Its lease ran out, or who held it went away, and it was killed.
    LeaseLost,
    /// The same, but some of it may be alive.
    OutOfSight,
    /// The program cannot be started.
    CannotStart,
    /// The keeper could not start it for want of its own means: descriptors, processes, memory. Nothing of it ran.
    Short,
    /// The keeper would not start it.
    Refused,
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("frame between daemon and keeper cannot be read: {what}"))
}

fn push_frame(to: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("arguments and environment take {length} bytes: wanted at most {LONGEST}"),
        ));
    };
    to.extend(prefix.to_le_bytes());
    to.push(kind);
    for part in parts {
        to.extend(*part);
    }
    Ok(())
}

/// The frame of an order; fails if it is too long.
pub fn order_frame(order: &Order) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    push_frame(&mut frame, JSON, &[&serde_json::to_vec(order)?])?;
    Ok(frame)
}

/// The frame of a start or an end.
pub fn news_frame(news: News) -> io::Result<Vec<u8>> {
    let news = match news {
        News::Started(key, pid) => NewsInJson::Started(key, pid),
        News::Dropped(key, count) => NewsInJson::Dropped(key, count),
        News::Ended(key, report) => NewsInJson::Ended(key, report),
        News::Pong => NewsInJson::Pong,
        News::Output(key, stream, bytes) => {
            let mut frame = Vec::new();
            push_output(&mut frame, key, stream, &bytes)?;
            return Ok(frame);
        }
    };
    let mut frame = Vec::new();
    push_frame(&mut frame, JSON, &[&serde_json::to_vec(&news)?])?;
    Ok(frame)
}

fn push_output(to: &mut Vec<u8>, key: Key, stream: Stream, bytes: &[u8]) -> io::Result<()> {
    let kind = match stream {
        Stream::Stdout => STDOUT,
        Stream::Stderr => STDERR,
    };
    push_frame(to, kind, &[&key.to_le_bytes(), bytes])
}

/// The frames of what a run wrote, the dropped bytes told where they are missing.
pub(super) fn output_frames(key: Key, output: &Output) -> io::Result<Vec<u8>> {
    let mut frames = Vec::new();
    for chunk in &output.head {
        push_output(&mut frames, key, chunk.stream, &chunk.bytes)?;
    }
    if output.dropped_bytes > 0 {
        frames.extend(news_frame(News::Dropped(key, output.dropped_bytes))?);
    }
    for chunk in &output.tail {
        push_output(&mut frames, key, chunk.stream, &chunk.bytes)?;
    }
    Ok(frames)
}

/// The next frame; none at the end of the stream. Not to be dropped half way.
async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut prefix = [0_u8; 4];
    match from.read_exact(&mut prefix).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = usize::try_from(u32::from_le_bytes(prefix)).map_err(broken)?;
    if length > LONGEST {
        return Err(broken(format_args!("{length} bytes long, wanted at most {LONGEST}")));
    }
    // Grown as the bytes come, not as the prefix promises.
    let mut frame = Vec::new();
    from.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() == length {
        Ok(Some(frame))
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, broken("it ends early")))
    }
}

/// The next order; none when the daemon is gone. Fails with `UnexpectedEof` if it went in the middle of one.
pub async fn read_order(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Order>> {
    let Some(frame) = read_frame(from).await? else { return Ok(None) };
    match frame.split_first() {
        Some((&JSON, json)) => serde_json::from_slice(json).map(Some).map_err(broken),
        Some((kind, _)) => Err(broken(format_args!("an order of kind {kind}"))),
        None => Err(broken("it is empty")),
    }
}

/// The next news; none when the keeper is gone.
pub async fn read_news(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<News>> {
    let Some(frame) = read_frame(from).await? else { return Ok(None) };
    let stream = match frame.split_first() {
        Some((&JSON, json)) => {
            return Ok(Some(match serde_json::from_slice(json).map_err(broken)? {
                NewsInJson::Started(key, pid) => News::Started(key, pid),
                NewsInJson::Dropped(key, count) => News::Dropped(key, count),
                NewsInJson::Ended(key, report) => News::Ended(key, report),
                NewsInJson::Pong => News::Pong,
            }));
        }
        Some((&STDOUT, _)) => Stream::Stdout,
        Some((&STDERR, _)) => Stream::Stderr,
        Some((kind, _)) => return Err(broken(format_args!("news of kind {kind}"))),
        None => return Err(broken("it is empty")),
    };
    let (key, bytes) = frame.get(1..).and_then(<[u8]>::split_first_chunk::<8>).ok_or_else(|| broken("it has no key"))?;
    Ok(Some(News::Output(Key::from_le_bytes(*key), stream, bytes.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_read_back_as_they_were_written() {
        let report = Report { exit_code: Some(3), ..Report::of(End::ByItself, "é") };
        for news in [
            || News::Started(7, 42),
            || News::Output(u64::MAX, Stream::Stderr, vec![0, 255, 10]),
            || News::Dropped(1, u64::MAX),
            || News::Pong,
        ] {
            assert_eq!(read_news(&mut &*news_frame(news()).unwrap()).await.unwrap(), Some(news()));
        }
        let frame = news_frame(News::Ended(1, report.clone())).unwrap();
        assert_eq!(read_news(&mut &*frame).await.unwrap(), Some(News::Ended(1, report)));
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
        assert!(read_order(&mut &too_long[..]).await.unwrap_err().to_string().contains("wanted at most"));
    }
}
