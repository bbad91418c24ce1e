//! Restoring quarantined data to its original place after the caller has checked the data.

use super::quarantine::{EntryKind, QuarantineEntry, member_bytes};
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::server::redis_keys::parse_lease_member;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::{KnownNames, known_key};
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The result of restoring a quarantine entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutBackReply {
    /// The data is back in its original place. The value is the new score of a set member; None for
    /// a whole key.
    Restored(Option<UnixMillis>),
    /// The entry is no longer in quarantine.
    Gone,
    /// The original place of the data is in use.
    Taken,
    /// The data cannot be restored; the text is the reason.
    Refused(String),
}

impl Store {
    /// Restores the data of a quarantine entry: a set member or a whole key.
    pub async fn restore(&self, entry: &QuarantineEntry) -> Result<PutBackReply, StoreError> {
        match &entry.kind {
            EntryKind::Member { score } => self.restore_entry(entry, score).await,
            EntryKind::Key { aside } => self.restore_key(entry, aside).await,
        }
    }

    /// Restores a member of a due set or of the leases. A due run gets its ready time, or its due
    /// time if the score is invalid. The claim of the run checks its gates again. A lease is
    /// restored as expired, and its run counts as a running run of its queue. The run of the lease
    /// regains its places at gates.
    async fn restore_entry(
        &self,
        entry: &QuarantineEntry,
        score: &str,
    ) -> Result<PutBackReply, StoreError> {
        // If two entries had the same name, the second name has a time and a number appended.
        let member = entry.name.split(' ').next().unwrap_or_default();
        let set = self.keys.rest(&entry.key).unwrap_or_default();
        let (run, fence): (RunId, _) = match (set, parse_lease_member(member), member.parse()) {
            ("leases", Some((run, fence)), _) => (run, Some(fence)),
            ("leases", None, _) => {
                return Ok(PutBackReply::Refused(
                    "the entry is not a lease (RUN#FENCE)".to_owned(),
                ));
            }
            (set, _, Ok(run)) if set.starts_with("due:") => (run, None),
            (set, _, Err(error)) if set.starts_with("due:") => {
                return Ok(PutBackReply::Refused(format!("{error}")));
            }
            _ => {
                return Ok(PutBackReply::Refused(format!(
                    "its original key {} is not a set of runs or leases",
                    entry.key
                )));
            }
        };
        let ready = match fence {
            Some(_) => self.now().await?,
            None => score.parse().ok().and_then(UnixMillis::new).unwrap_or(run.due()),
        };
        let record = if fence.is_some() { self.read_run(&run).await? } else { None };
        let (lane, places) = record.map_or_else(
            || (Lane::default_lane(), Vec::new()),
            |record| (record.lane, record.places),
        );
        let call = |gates: &[Gate]| {
            let call = self
                .call(&scripts::RESTORE_ENTRY)
                .of_run(&run)
                .of_queue(lane.queue())
                .key("set", &entry.key)
                .arg("field", member_bytes(&entry.name))
                .arg("entry", &entry.raw)
                .arg("member", member)
                .arg("score", ready.as_i64())
                .optional("fence", fence)
                .arg("lane", lane.as_str())
                .arg("gates", names_of(gates));
            call.gate_keys(&self.keys, gates)
        };
        let mut reply = self.invoke_at_gates(&places, call).await?;
        Ok(match reply.word.as_str() {
            "restored" => PutBackReply::Restored(Some(ready)),
            "gone" => PutBackReply::Gone,
            "taken" => PutBackReply::Taken,
            "refused" => PutBackReply::Refused(reply.text()?),
            _ => return Err(reply.unknown()),
        })
    }

    async fn restore_key(
        &self,
        entry: &QuarantineEntry,
        aside: &str,
    ) -> Result<PutBackReply, StoreError> {
        let rest = self.keys.rest(&entry.key).unwrap_or_default();
        let KnownNames::Type(kind) = known_key(rest) else {
            return Ok(PutBackReply::Refused(format!(
                "this version of schedd has no key {}",
                entry.key
            )));
        };
        let call = self
            .call(&scripts::RESTORE_KEY)
            .key("aside", member_bytes(aside))
            .key("key", member_bytes(&entry.key))
            .arg("field", member_bytes(&entry.name))
            .arg("entry", &entry.raw)
            .arg("kind", kind);
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "restored" => PutBackReply::Restored(None),
            "gone" => PutBackReply::Gone,
            "taken" => PutBackReply::Taken,
            "refused" => PutBackReply::Refused(reply.text()?),
            _ => return Err(reply.unknown()),
        })
    }

    /// Returns the job record in a quarantined key; None if the entry is not the key of a job.
    pub async fn read_set_aside_job(
        &self,
        entry: &QuarantineEntry,
    ) -> Result<Option<crate::JobRecord>, StoreError> {
        let name = self
            .keys
            .rest(&entry.key)
            .and_then(|rest| rest.strip_prefix("job:"))
            .and_then(|name| name.parse().ok());
        let (EntryKind::Key { aside }, Some(name)) = (&entry.kind, name) else { return Ok(None) };
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(member_bytes(aside));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(fields) = answer.first() else { return Ok(None) };
        crate::JobRecord::read(&name, fields)?.map_or_else(
            || Err(StoreError::corrupt(format!("job {name}"), "the field \"rev\" is missing")),
            |record| Ok(Some(record)),
        )
    }
}
