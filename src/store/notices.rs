//! What people are to be told: read, made runs of, and read again by the run that tells it.
//!
//! Invariant: a notice leaves `notices` only in the step that plants its run, or says that it needs none.

use redis::Value;
use serde_json::Value as Json;

use super::Store;
use super::error::StoreError;
use super::outputs::frames;
use super::reply::{Reply, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::RunId;
use crate::domain::notice::{Entry, NoticeKind, read_notice};

/// Notices of one job of one kind that may be planted and not over.
pub const MOST_OPEN: usize = 10;

/// What people are to be told, as the script that wrote it left it.
#[derive(Debug, Clone)]
pub struct Notice {
    /// As it stands in Redis.
    member: Vec<u8>,
    /// The run it is about; of one that tells of those only counted the first of them.
    pub about: RunId,
    /// Why they are told.
    pub kind: NoticeKind,
    /// The run that tells it.
    pub run: RunId,
    /// Whether it tells of those only counted.
    is_of_rest: bool,
}

/// What a notice tells of its run: fields of that run's record as they were when it was written.
#[derive(Debug, Clone, Default)]
pub struct About {
    fields: serde_json::Map<String, Json>,
    /// How many notices of this kind were only counted since the one before.
    pub suppressed: u64,
}

impl About {
    /// A field; none if the run has none.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Json::as_str)
    }

    /// A field that is a number.
    pub fn number(&self, field: &str) -> Option<i64> {
        self.text(field)?.parse().ok()
    }
}

/// The hidden job of a notice as it is to be by now.
#[derive(Debug, Clone)]
pub struct NoticeOrder {
    /// Its definition and the hash of that; none = nobody is to be told any more.
    pub definition: Option<(String, String)>,
    /// The zone kept with it.
    pub tz: String,
}

/// What became of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeReply {
    /// It is due.
    Planted,
    /// It was planted before.
    Told,
    /// Too many of its kind are not over: it was only counted.
    Suppressed,
    /// It tells of those that were only counted, when none of the others is open.
    Waits,
    /// Nobody is to be told any more.
    Dropped,
    /// Another node was first.
    Gone,
}

impl Store {
    /// What people are to be told, oldest first, of `limit` entries behind the first `skip`; and how many entries those were. What
    /// cannot be read is left to the doctor.
    pub async fn list_notices(&self, skip: usize, limit: usize) -> Result<(Vec<Notice>, usize), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.notices()).arg(skip).arg((skip + limit).saturating_sub(1));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(members)) = answer.first() else { return Ok((Vec::new(), 0)) };
        let read = |member: &Value| {
            let Value::BulkString(bytes) = member else { return None };
            let Entry { about, kind, run, is_of_rest } = read_notice(bytes)?;
            Some(Notice { member: bytes.clone(), about, kind, run, is_of_rest })
        };
        Ok((members.iter().filter_map(read).collect(), members.len()))
    }

    /// Makes a run of a notice.
    pub async fn plant_notice(&self, notice: &Notice, order: &NoticeOrder) -> Result<NoticeReply, StoreError> {
        let mut replies = self.plant_notices(&[(notice, order)]).await?;
        replies.pop().unwrap_or_else(|| Err(StoreError::corrupt("plant_notice", "no reply")))
    }

    /// Makes runs of notices in one go, each by itself: one refused does not keep the others out.
    pub async fn plant_notices(
        &self,
        orders: &[(&Notice, &NoticeOrder)],
    ) -> Result<Vec<Result<NoticeReply, StoreError>>, StoreError> {
        let calls: Vec<_> = orders.iter().map(|(notice, order)| self.notice_call(notice, order)).collect();
        let read = |reply: Result<Reply, StoreError>| {
            let reply = reply?;
            Ok(match reply.word.as_str() {
                "planted" => NoticeReply::Planted,
                "told" => NoticeReply::Told,
                "suppressed" => NoticeReply::Suppressed,
                "waits" => NoticeReply::Waits,
                "dropped" => NoticeReply::Dropped,
                "gone" => NoticeReply::Gone,
                _ => return Err(reply.unknown()),
            })
        };
        Ok(self.link.invoke_all(&calls).await?.into_iter().map(read).collect())
    }

    fn notice_call(&self, notice: &Notice, order: &NoticeOrder) -> Invocation {
        let (keys, run) = (&self.keys, &notice.run);
        let lane = crate::domain::lane::Lane::of_notices();
        let (definition, hash) = order.definition.as_ref().map_or(("", ""), |(text, hash)| (text, hash));
        Invocation::new(&scripts::PLANT_NOTICE)
            .key("notices", keys.notices())
            .key("job", keys.job(run.job()))
            .key("run", keys.run(run))
            .key("due", keys.due(&lane))
            .key("manual", keys.manual(run.job()))
            .key("finished", keys.finished())
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("told_job", keys.job(notice.about.job()))
            .arg("now", self.now_arg())
            .arg("notice", &notice.member[..])
            .arg("id", run.to_string())
            .arg("job_name", run.job().as_str())
            .arg("due_ms", run.due().as_i64())
            .arg("definition", definition)
            .arg("hash", hash)
            .arg("tz", &order.tz)
            .arg("lane", lane.as_str())
            .arg("most", MOST_OPEN)
            .arg("about", notice.about.to_string())
            .arg("rest", if notice.is_of_rest { "1" } else { "" })
    }

    /// What the notice that is this run tells; empty if its record does not say.
    pub async fn read_about(&self, run: &RunId) -> Result<About, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(self.keys.run(run)).arg(&["about", "suppressed"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(About::default()) };
        let text = |at: usize| parts.get(at).and_then(text_of);
        let fields = text(0).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(About { fields, suppressed: text(1).and_then(|count| count.parse().ok()).unwrap_or(0) })
    }

    /// The last `bytes` of what an attempt printed to both streams, in the order in which it came.
    pub async fn read_output_tail(&self, run: &RunId, attempt: u32, bytes: usize) -> Result<Vec<u8>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(self.keys.output(run, attempt)).arg(&["head", "tail"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(Vec::new()) };
        let mut printed = Vec::new();
        for part in parts {
            if let Value::BulkString(part) = part {
                frames(part).for_each(|(_, bytes)| printed.extend_from_slice(bytes));
            }
        }
        let beyond = printed.len().saturating_sub(bytes);
        Ok(printed.split_off(beyond))
    }
}
