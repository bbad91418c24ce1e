//! The earlier schedule versions of a job. The scripts that change a job's schedule write these
//! versions.

use redis::Value;

use crate::Store;
use crate::history::skipped_ranges::CountedBy;
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of schedule versions read, which is also the number of versions kept.
const MOST: usize = 100;

/// An earlier schedule version of a job, with the period in which the job had this schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The start of the period in which the job had this schedule. This time itself is excluded.
    pub from: UnixMillis,
    /// The end of the period in which the job had this schedule. This time itself is included.
    pub until: UnixMillis,
    /// The schedule of this version, if the schedule was short enough to be stored.
    pub counted_by: Option<CountedBy>,
}

impl StoredVersion {
    fn read(member: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(member).ok()?;
        let instant = |field: &str| UnixMillis::new(value[field].as_i64()?);
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let (from, until) = (instant("from")?, instant("to")?);
        let counted_by = || {
            Some(CountedBy {
                definition: text("def")?,
                tz: text("tz")?,
                anchor: instant("anchor")?,
                since: from,
            })
        };
        Some(Self { from, until, counted_by: counted_by() })
    }
}

impl Store {
    /// Returns the kept schedule versions of a job, the oldest first. An unreadable version and all
    /// versions older than it are left out.
    pub async fn read_versions(&self, job: &JobName) -> Result<Vec<StoredVersion>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.schedule_versions(job))
            .arg(-i64::try_from(MOST).unwrap_or(i64::MAX))
            .arg(-1);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(members)) = answer.first() else { return Ok(Vec::new()) };
        let read: Vec<Option<StoredVersion>> =
            members.iter().map(|member| StoredVersion::read(&text_of(member)?)).collect();
        let known = read.rsplit(Option::is_none).next().unwrap_or_default();
        Ok(known.iter().flatten().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_version_reads_back_and_what_is_none_does_not() {
        let read =
            StoredVersion::read(r#"{"from":5,"to":9,"def":"{}","tz":"UTC","anchor":1}"#).unwrap();
        let at = |ms| UnixMillis::new(ms).unwrap();
        let counted_by = CountedBy {
            definition: "{}".to_owned(),
            tz: "UTC".to_owned(),
            anchor: at(1),
            since: at(5),
        };
        assert_eq!(read, StoredVersion { from: at(5), until: at(9), counted_by: Some(counted_by) });
        assert_eq!(
            StoredVersion::read(r#"{"from":5,"to":9,"tz":"UTC","anchor":1}"#).unwrap().counted_by,
            None
        );
        for bad in ["", "5", "{}", r#"{"from":-1,"to":9}"#, r#"{"from":5}"#] {
            assert!(StoredVersion::read(bad).is_none(), "{bad}");
        }
    }
}
