//! Runs for `@reboot`. A job gets one run for each boot of a host. Redis stores the boots for which
//! all `@reboot` jobs have their runs.

use std::collections::BTreeSet;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of boots remembered. The number is limited because hosts may come and go under new
/// names.
const MOST_BOOTS: i64 = 1_000;

/// The result of adding the run that a job gets for a boot to a due set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootReply {
    /// The run for this boot is now due.
    Planted,
    /// The job had a run for this boot before. A job gets one run for each boot of a host.
    Known,
    /// The job does not exist.
    Unknown,
    /// The job is paused.
    Paused,
}

impl Store {
    /// Returns true if all `@reboot` jobs have their runs for this boot of a host. `host` is the
    /// lane that names the host.
    pub async fn is_boot_noted(&self, host: &Lane, boot_id: &str) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.boots()).arg(format!("{host} {boot_id}"));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().is_some_and(|score| !matches!(score, redis::Value::Nil)))
    }

    /// Lists the lanes that have a planned run and belong to a remembered host. Includes the lane
    /// of notices if a notice is planned.
    pub async fn list_host_lanes(&self) -> Result<Vec<Lane>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.boots()).arg(0).arg(MOST_BOOTS - 1);
        pipeline.cmd("ZRANGE").arg(self.keys.boot_runs()).arg(-MOST_BOOTS).arg(-1);
        // A key of the wrong type counts as empty. The code that uses the key reports it.
        let answers = self.link.ask(&mut pipeline).await?;
        let members = answers.into_iter().filter_map(|answer| match answer {
            Ok(redis::Value::Array(members)) => Some(members),
            _ => None,
        });
        let host = |member: &redis::Value| {
            text_of(member)?.split(' ').find(|word| word.starts_with('@'))?.parse().ok()
        };
        let mut hosts: BTreeSet<Lane> =
            members.flatten().filter_map(|member| host(&member)).collect();
        hosts.insert(Lane::of_notices());
        let mut pipeline = redis::pipe();
        for host in &hosts {
            pipeline.cmd("EXISTS").arg(self.keys.due(host));
        }
        let there = self.link.query(&mut pipeline).await?;
        Ok(hosts
            .into_iter()
            .zip(there)
            .filter(|(_, is_there)| number_of(is_there) == Some(1))
            .map(|(host, _)| host)
            .collect())
    }

    /// Records at `now` that all `@reboot` jobs have their runs for this boot of a host. `host` is
    /// the lane that names the host.
    pub async fn note_boot(
        &self,
        host: &Lane,
        boot_id: &str,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZADD")
            .arg(self.keys.boots())
            .arg(now.as_i64())
            .arg(format!("{host} {boot_id}"));
        pipeline.cmd("ZREMRANGEBYRANK").arg(self.keys.boots()).arg(0).arg(-MOST_BOOTS - 1);
        self.link.query(&mut pipeline).await.map(|_| ())
    }

    /// Adds the run of a job for a boot to the due set of `lane`, once for each boot. Only nodes of
    /// the host that `lane` names can claim this run.
    pub async fn plant_reboot(
        &self,
        run: &RunId,
        lane: &Lane,
        boot_id: &str,
    ) -> Result<RebootReply, StoreError> {
        self.note_lanes([lane]).await?;
        let call = self
            .call(&scripts::PLANT_REBOOT)
            .of_run(run)
            .of_lane(lane)
            .arg("lane", lane.as_str())
            .arg("boot", format!("{} {boot_id}", lane.queue()));
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "planted" => RebootReply::Planted,
            "known" => RebootReply::Known,
            "unknown" => RebootReply::Unknown,
            "paused" => RebootReply::Paused,
            _ => return Err(reply.unknown()),
        })
    }
}
