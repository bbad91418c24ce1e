//! Putting back what was moved aside, after it was judged to be usable.

use super::Store;
use super::error::StoreError;
use super::gates::names_of;
use super::keys::parse_lease_member;
use super::quarantine::{EntryKind, QuarantineEntry, member_bytes};
use super::scripts::{self, Invocation};
use crate::domain::books::{Known, known_key};
use crate::domain::gate::Gate;
use crate::domain::ids::RunId;
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;

/// What became of an entry that was to be put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutBackReply {
    /// It is where it was; with the score it was given, if it has one.
    Restored(Option<UnixMillis>),
    /// It is no longer in quarantine.
    Gone,
    /// Its place is taken.
    Taken,
    /// It cannot be used, for this reason.
    Refused(String),
}

impl Store {
    /// Puts a member of a set, or a whole key, back.
    pub async fn restore(&self, entry: &QuarantineEntry) -> Result<PutBackReply, StoreError> {
        match &entry.kind {
            EntryKind::Member { score } => self.restore_entry(entry, score).await,
            EntryKind::Key { aside } => self.restore_key(entry, aside).await,
        }
    }

    /// A due run comes back at its ready time if that is one, else when it is due, and is judged at its gates anew; a lease comes back
    /// ended, counted in its queue and with the places of its run.
    async fn restore_entry(&self, entry: &QuarantineEntry, score: &str) -> Result<PutBackReply, StoreError> {
        // One that met its like in quarantine has a moment and a number behind its name.
        let member = entry.name.split(' ').next().unwrap_or_default();
        let set = self.keys.rest(&entry.key).unwrap_or_default();
        let (run, fence): (RunId, _) = match (set, parse_lease_member(member), member.parse()) {
            ("leases", Some((run, fence)), _) => (run, Some(fence)),
            ("leases", None, _) => return Ok(PutBackReply::Refused("it is no lease (RUN#FENCE)".to_owned())),
            (set, _, Ok(run)) if set.starts_with("due:") => (run, None),
            (set, _, Err(error)) if set.starts_with("due:") => return Ok(PutBackReply::Refused(format!("{error}"))),
            _ => return Ok(PutBackReply::Refused(format!("it stood in {:?}, which is no set of runs", entry.key))),
        };
        let ready = match fence {
            Some(_) => self.now().await?,
            None => score.parse().ok().and_then(UnixMillis::new).unwrap_or(run.due()),
        };
        let record = if fence.is_some() { self.read_run(&run).await? } else { None };
        let (lane, places) = record.map_or_else(|| (Lane::default_lane(), Vec::new()), |record| (record.lane, record.places));
        let call = |gates: &[Gate]| {
            let call = Invocation::new(&scripts::RESTORE_ENTRY)
                .key("quarantine", self.keys.quarantine())
                .key("set", &entry.key)
                .key("run", self.keys.run(&run))
                .key("job", self.keys.job(run.job()))
                .key("nudge", self.keys.nudge())
                .key("running", self.keys.running(lane.queue()))
                .arg("now", self.now_arg())
                .arg("field", member_bytes(&entry.name))
                .arg("entry", &entry.raw)
                .arg("member", member)
                .arg("score", ready.as_i64())
                .arg("fence", fence.map_or_else(String::new, |fence| fence.to_string()))
                .arg("id", run.to_string())
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

    async fn restore_key(&self, entry: &QuarantineEntry, aside: &str) -> Result<PutBackReply, StoreError> {
        let rest = self.keys.rest(&entry.key).unwrap_or_default();
        let Known::Type(kind) = known_key(rest) else {
            return Ok(PutBackReply::Refused(format!("{:?} is no key of this schedd", entry.key)));
        };
        let call = Invocation::new(&scripts::RESTORE_KEY)
            .key("quarantine", self.keys.quarantine())
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

    /// The name within the namespace of the key an entry was, and the job it was the definition of, read as one; for a key that
    /// is a job's.
    pub async fn read_set_aside_job(&self, entry: &QuarantineEntry) -> Result<Option<super::JobRecord>, StoreError> {
        let name = self.keys.rest(&entry.key).and_then(|rest| rest.strip_prefix("job:")).and_then(|name| name.parse().ok());
        let (EntryKind::Key { aside }, Some(name)) = (&entry.kind, name) else { return Ok(None) };
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(member_bytes(aside));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(fields) = answer.first() else { return Ok(None) };
        super::JobRecord::read(&name, fields)?.map_or_else(
            || Err(StoreError::corrupt(format!("job {name}"), "its field \"rev\" is missing")),
            |record| Ok(Some(record)),
        )
    }
}
