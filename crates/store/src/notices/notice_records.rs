//! Notifications that wait in the set `notices`. This file reads these entries, plans the run that
//! delivers a notification, and reads the facts that the run delivers.
//!
//! Invariant: an entry leaves the set `notices` only in the step that adds its run to the due set
//! or decides that no run is needed.

use redis::Value;
use serde_json::Value as Json;

use crate::Store;
use crate::history::outputs::frames;
use crate::server::reply::{Reply, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::notice::{NoticeEntry, NoticeKind, read_notice};
use schedd_schedule::names::RunId;

/// The number of open notices of one job and kind that may exist at the same time.
pub const MOST_OPEN: usize = 10;

/// A notification that waits for its run, as a script stored the notification.
#[derive(Debug, Clone)]
pub struct NoticeRecord {
    /// The member of `notices` in Redis that holds the notification.
    member: Vec<u8>,
    /// The run that the notification is about. For a summary, the run of the first notification
    /// that was only counted.
    pub about: RunId,
    /// The kind of notification.
    pub kind: NoticeKind,
    /// The run that delivers the notification.
    pub run: RunId,
    /// True for a summary of notifications that were only counted.
    is_of_rest: bool,
}

/// The facts that a notification reports, copied when the notification was stored. They are fields
/// of the record of the run that the notification is about.
#[derive(Debug, Clone, Default)]
pub struct About {
    fields: serde_json::Map<String, Json>,
    /// The number of notifications of this kind that were only counted since the last delivered
    /// notification.
    pub suppressed: u64,
}

impl About {
    /// Returns the value of a field as text; None if the field is missing.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Json::as_str)
    }

    /// Returns the value of a field as a number; None if the field is missing or no number.
    pub fn number(&self, field: &str) -> Option<i64> {
        self.text(field)?.parse().ok()
    }
}

/// The hidden job that delivers a notice, with the definition that the job must have now.
#[derive(Debug, Clone)]
pub struct NoticeOrder {
    /// The definition of the hidden job; None if the notification is no longer wanted.
    pub definition: Option<String>,
    /// The time zone stored with the hidden job.
    pub tz: String,
}

/// The result of adding the run of a notice to the due set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeReply {
    /// The run of the notice is due.
    Planted,
    /// The notice was added before, or a summary is no longer needed.
    Obsolete,
    /// Too many notices of this kind are open. The notification was only counted.
    Suppressed,
    /// The summary waits until no notice of its kind is open.
    Waits,
    /// The notification is no longer wanted and was removed.
    Dropped,
    /// Another node planned or dropped the notification first.
    Gone,
}

impl Store {
    /// Lists `limit` waiting notifications after the first `skip`, oldest first. Also returns the
    /// number of entries read. Malformed entries are left out, because `doctor` reports them.
    pub async fn list_notices(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<NoticeRecord>, usize), StoreError> {
        let members = self.waiting_members(&self.keys.notices(), skip, limit).await?;
        let read = |member: &Vec<u8>| {
            let NoticeEntry { about, kind, run, is_of_rest } = read_notice(member)?;
            Some(NoticeRecord { member: member.clone(), about, kind, run, is_of_rest })
        };
        Ok((members.iter().filter_map(read).collect(), members.len()))
    }

    /// Adds the run that delivers a notification to the due set.
    pub async fn plant_notice(
        &self,
        notice: &NoticeRecord,
        order: &NoticeOrder,
    ) -> Result<NoticeReply, StoreError> {
        let mut replies = self.plant_notices(&[(notice, order)]).await?;
        replies.pop().unwrap_or_else(|| {
            Err(StoreError::corrupt("script plant_notice", "the reply is missing"))
        })
    }

    /// Adds the runs that deliver several notifications to the due set, in one pipeline. A refused
    /// notification does not affect the remaining notifications.
    pub async fn plant_notices(
        &self,
        orders: &[(&NoticeRecord, &NoticeOrder)],
    ) -> Result<Vec<Result<NoticeReply, StoreError>>, StoreError> {
        let calls: Vec<_> =
            orders.iter().map(|(notice, order)| self.notice_call(notice, order)).collect();
        let read = |reply: Result<Reply, StoreError>| {
            let reply = reply?;
            Ok(match reply.word.as_str() {
                "planted" => NoticeReply::Planted,
                "obsolete" => NoticeReply::Obsolete,
                "suppressed" => NoticeReply::Suppressed,
                "waits" => NoticeReply::Waits,
                "dropped" => NoticeReply::Dropped,
                "gone" => NoticeReply::Gone,
                _ => return Err(reply.unknown()),
            })
        };
        Ok(self.link.invoke_all(&calls).await?.into_iter().map(read).collect())
    }

    fn notice_call(&self, notice: &NoticeRecord, order: &NoticeOrder) -> Invocation {
        let (keys, run) = (&self.keys, &notice.run);
        let lane = schedd_core::domain::queue::lane::Lane::of_notices();
        self.call(&scripts::PLANT_NOTICE)
            .of_run(run)
            .of_lane(&lane)
            .key("subject_job", keys.job(notice.about.job()))
            .arg("notice", &notice.member[..])
            .arg("definition", order.definition.as_deref().unwrap_or_default())
            .arg("tz", &order.tz)
            .arg("lane", lane.as_str())
            .arg("most", MOST_OPEN)
            .arg("about", notice.about.to_string())
            .arg("rest", if notice.is_of_rest { "1" } else { "" })
    }

    /// Returns the facts that this notice delivers. The result is empty if the record of the notice
    /// contains no such facts.
    pub async fn read_about(&self, run: &RunId) -> Result<About, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(self.keys.run(run)).arg(&["about", "suppressed"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(About::default()) };
        let text = |at: usize| parts.get(at).and_then(text_of);
        let fields = text(0).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(About { fields, suppressed: text(1).and_then(|count| count.parse().ok()).unwrap_or(0) })
    }

    /// Returns the last `bytes` bytes that an attempt wrote to both streams, in the order written.
    pub async fn read_output_tail(
        &self,
        run: &RunId,
        attempt: u32,
        bytes: usize,
    ) -> Result<Vec<u8>, StoreError> {
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
