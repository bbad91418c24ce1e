//! The output of attempts: written while the attempts run, read for `logs`, and deleted oldest
//! first. Also their progress, which is kept with the run.
//!
//! A stored part is a sequence of frames: one byte for the stream (1 stdout, 2 stderr), four bytes
//! for the length, then the data.

use redis::Value;

use crate::Store;
use crate::runs::claims::Claim;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The output of an attempt as frames, ready to be stored in Redis.
#[derive(Debug, Clone, Default)]
pub struct OutputFrames {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped_bytes: u64,
}

const STDOUT: u8 = 1;
const STDERR: u8 = 2;

impl OutputFrames {
    /// Creates an output without data. `dropped_bytes` is the number of bytes between its head and
    /// its tail that are not stored.
    pub fn new(dropped_bytes: u64) -> Self {
        Self { dropped_bytes, ..Self::default() }
    }

    /// Appends bytes of a stream to the head: the stored beginning of the output.
    pub fn push_head(&mut self, stream: OutputStream, bytes: &[u8]) {
        push_frame(&mut self.head, stream, bytes);
    }

    /// Appends bytes of a stream to the tail: the stored end of the output.
    pub fn push_tail(&mut self, stream: OutputStream, bytes: &[u8]) {
        push_frame(&mut self.tail, stream, bytes);
    }

    /// Returns true if the attempt printed nothing.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.dropped_bytes == 0
    }
}

fn push_frame(part: &mut Vec<u8>, stream: OutputStream, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    part.push(match stream {
        OutputStream::Stdout => STDOUT,
        OutputStream::Stderr => STDERR,
    });
    part.extend_from_slice(&length.to_be_bytes());
    part.extend_from_slice(bytes.get(..length as usize).unwrap_or(bytes));
}

/// The stored output of an attempt that may still be running, in the order written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputSoFar {
    /// The beginning of the output.
    pub head: Vec<(OutputStream, Vec<u8>)>,
    /// The latest output, after `head`.
    pub tail: Vec<(OutputStream, Vec<u8>)>,
    /// The number of bytes between `head` and `tail` that were not stored.
    pub dropped_bytes: u64,
    /// The size of the output at this reading. A later reading shows new output if its size
    /// differs.
    pub mark: OutputMark,
}

/// The size of an output when it was read. A different mark means different output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputMark {
    size: u64,
    dropped: u64,
}

/// The stored output of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptOutput {
    /// The data of the attempt's standard output.
    pub stdout: Vec<u8>,
    /// The data of the attempt's standard error.
    pub stderr: Vec<u8>,
    /// The number of bytes of both streams that were not stored.
    pub dropped_bytes: u64,
}

impl KeptOutput {
    fn add(&mut self, (stream, bytes): (OutputStream, &[u8])) {
        match stream {
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
        }
    }
}

/// Returns the frames in a stored part of an output, each as its stream and its data.
pub(crate) fn frames(mut part: &[u8]) -> impl Iterator<Item = (OutputStream, &[u8])> {
    std::iter::from_fn(move || {
        let [stream, a, b, c, d, rest @ ..] = part else { return None };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (bytes, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        part = after;
        Some((if *stream == STDERR { OutputStream::Stderr } else { OutputStream::Stdout }, bytes))
    })
}

impl Store {
    /// Stores the output that an attempt has written so far. Returns the number of bytes stored for
    /// its job; None if the claim no longer has the run.
    pub async fn write_output(
        &self,
        claim: &Claim,
        frames: &OutputFrames,
    ) -> Result<Option<u64>, StoreError> {
        let call = self
            .call(&scripts::WRITE_OUTPUT)
            .of_run(&claim.run)
            .key("output", self.keys.output(&claim.run, claim.attempt))
            .arg("fence", claim.fence.as_u64())
            .arg("attempt", claim.attempt)
            .arg("head", &frames.head[..])
            .arg("tail", &frames.tail[..])
            .arg("dropped", frames.dropped_bytes);
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "written" => Ok(Some(u64::try_from(reply.number()?).unwrap_or(0))),
            "lost" => Ok(None),
            _ => Err(reply.unknown()),
        }
    }

    /// Notes how far the work of an attempt is. Does nothing if the claim no longer has the run.
    pub async fn note_progress(
        &self,
        claim: &Claim,
        progress: &RunProgress,
    ) -> Result<(), StoreError> {
        let call = self
            .call(&scripts::NOTE_PROGRESS)
            .of_run(&claim.run)
            .arg("fence", claim.fence.as_u64())
            .arg("progress", format!("{} {}", claim.attempt, progress.stored()));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "noted" | "lost" => Ok(()),
            _ => Err(reply.unknown()),
        }
    }

    /// Returns the output of an attempt; None if nothing is stored.
    pub async fn read_output(
        &self,
        run: &RunId,
        attempt: u32,
    ) -> Result<Option<KeptOutput>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(self.keys.output(run, attempt)).arg(&["head", "tail", "dropped"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(None) };
        let [Value::BulkString(head), Value::BulkString(tail), dropped] = parts.as_slice() else {
            return Ok(None);
        };
        let mut kept = KeptOutput {
            dropped_bytes: number_of(dropped).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            ..KeptOutput::default()
        };
        frames(head).chain(frames(tail)).for_each(|frame| kept.add(frame));
        Ok(Some(kept))
    }

    /// Returns the output of an attempt if the output changed since `mark`. Returns None also if no
    /// output is stored.
    pub async fn read_output_since(
        &self,
        run: &RunId,
        attempt: u32,
        mark: OutputMark,
    ) -> Result<Option<OutputSoFar>, StoreError> {
        let key = self.keys.output(run, attempt);
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(&key).arg(&["size", "dropped"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(None) };
        if parts.iter().all(|part| *part == Value::Nil) || mark_of(parts) == mark {
            return Ok(None);
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(&key).arg(&["size", "dropped", "head", "tail"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(None) };
        let [_, _, Value::BulkString(head), Value::BulkString(tail)] = parts.as_slice() else {
            return Ok(None);
        };
        let owned = |part| frames(part).map(|(stream, bytes)| (stream, bytes.to_vec())).collect();
        let mark = mark_of(parts);
        Ok(Some(OutputSoFar {
            head: owned(head),
            tail: owned(tail),
            dropped_bytes: mark.dropped,
            mark,
        }))
    }

    /// Deletes outputs of one job or of all jobs, at most 100. Deletes outputs written before
    /// `before`, and the oldest outputs while more than `most_bytes` are stored. Returns the number
    /// of deleted outputs.
    pub async fn forget_outputs(
        &self,
        job: Option<&JobName>,
        before: UnixMillis,
        most_bytes: u64,
    ) -> Result<usize, StoreError> {
        let mut pipeline = redis::pipe();
        let index = if let Some(job) = job {
            pipeline.cmd("HGET").arg(self.keys.output_sizes()).arg(job.as_str());
            self.keys.job_outputs(job)
        } else {
            pipeline.cmd("GET").arg(self.keys.output_bytes());
            self.keys.outputs()
        };
        pipeline.cmd("ZRANGE").arg(index).arg(0).arg(99).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let [bytes, Value::Array(flat)] = answer.as_slice() else { return Ok(0) };
        let mut over = number_of(bytes)
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(0)
            .saturating_sub(most_bytes);
        let mut call = self.call(&scripts::FORGET_OUTPUTS);
        let mut forgotten = 0;
        for pair in flat.chunks_exact(2) {
            let (Some(member), Some(written)) = (text_of(&pair[0]), number_of(&pair[1])) else {
                continue;
            };
            if written >= before.as_i64() && over == 0 {
                break;
            }
            let parsed = member.split_once('#').and_then(|(run, attempt)| {
                Some((run.parse::<RunId>().ok()?, attempt.parse().ok()?))
            });
            let Some((run, attempt)) = parsed else { continue };
            let key = self.keys.output(&run, attempt);
            over = over.saturating_sub(self.output_size(&key).await?);
            call = call.item().of_job(run.job()).key("output", key).arg("member", member);
            forgotten += 1;
        }
        if forgotten > 0 {
            self.link.invoke(&call).await?;
        }
        Ok(forgotten)
    }

    async fn output_size(&self, key: &str) -> Result<u64, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(key).arg("size");
        // A key that is not an output has no size, and must not block the deletion of outputs.
        let answer = self.link.ask(&mut pipeline).await?;
        let size = answer.first().and_then(|size| size.as_ref().ok()).and_then(number_of);
        Ok(size.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    }
}

fn mark_of(parts: &[Value]) -> OutputMark {
    let number = |at: usize| {
        parts.get(at).and_then(number_of).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    };
    OutputMark { size: number(0), dropped: number(1) }
}

/// An output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// The standard output of the process.
    Stdout,
    /// The standard error of the process.
    Stderr,
}
