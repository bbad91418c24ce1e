//! The audit log of a job: who changed the job, when and how. The scripts that change a job write
//! the entries of the log.

use redis::Value;

use crate::Store;
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;

pub use schedd_core::domain::job::audit_entry::AuditEntry;

/// The most entries that the audit log of one job has. The scripts keep the newest 100 entries of
/// each job (`CHANGES` in `lua/shared/job_records.lua`), and all of them are read.
const MOST: usize = 100;

impl Store {
    /// Returns the kept entries of a job's audit log, the oldest first. Unreadable entries are
    /// skipped.
    pub async fn read_audit_log(&self, job: &JobName) -> Result<Vec<AuditEntry>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.audit_log(job))
            .arg(-i64::try_from(MOST).unwrap_or(i64::MAX))
            .arg(-1);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(members)) = answer.first() else { return Ok(Vec::new()) };
        Ok(members.iter().filter_map(text_of).filter_map(|member| entry_of(&member)).collect())
    }
}

/// Parses an entry of the audit log. Returns None if the entry is malformed.
pub(crate) fn entry_of(member: &str) -> Option<AuditEntry> {
    let value: serde_json::Value = serde_json::from_str(member).ok()?;
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let instant = |field: &str| UnixMillis::new(value[field].as_i64()?);
    Some(AuditEntry {
        at: UnixMillis::new(value["at"].as_i64()?)?,
        what: text("what")?,
        by: text("by"),
        run: text("run"),
        note: text("note"),
        count: value["count"].as_u64(),
        schedules: text("old").zip(text("new")),
        dues: instant("first").zip(instant("last")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reads_back_and_what_is_none_does_not() {
        let read =
            entry_of(r#"{"at":5,"what":"edited","by":"ana@h","old":"a","new":"b"}"#).unwrap();
        assert_eq!(
            (read.at.as_i64(), read.what.as_str(), read.by.as_deref()),
            (5, AuditEntry::EDITED, Some("ana@h"))
        );
        assert_eq!(read.schedules, Some(("a".to_owned(), "b".to_owned())));
        let dropped =
            entry_of(r#"{"at":5,"what":"backfill given up","count":2,"first":1,"last":4}"#)
                .unwrap();
        assert_eq!(
            (dropped.count, dropped.dues.map(|(first, last)| (first.as_i64(), last.as_i64()))),
            (Some(2), Some((1, 4)))
        );
        for bad in ["", "5", "{}", r#"{"at":-1,"what":"x"}"#, r#"{"at":5}"#] {
            assert!(entry_of(bad).is_none(), "{bad}");
        }
    }
}
