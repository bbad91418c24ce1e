//! The ends of runs that wait in the set `chain_ends` until the children of their jobs have them.
//!
//! Invariant: an entry leaves the set only in the step that gives the end to its child.

use crate::Store;
use crate::server::reply::Reply;
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::chain::chain_end::ChainEnd;
use schedd_schedule::names::RunId;

/// The most occurrences of a child that wait for the ends of parents.
const MOST_WAITING: usize = 10_000;

/// The end of a run that its child has not been given yet.
#[derive(Debug, Clone)]
pub struct ChainEndRecord {
    /// The member of `chain_ends` in Redis.
    member: Vec<u8>,
    /// The run that ended, and the child.
    pub end: ChainEnd,
}

/// The result of giving the end of a parent to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildReply {
    /// All parents have ended, and the run of the child is due.
    Planted,
    /// All parents have ended, and the run of the child ended as skipped.
    Skipped,
    /// The child waits for the ends of this number of other parents.
    Awaits(u64),
    /// The run of the child was decided before, and this end does not change it.
    Known,
    /// The child no longer exists, or no longer has this parent.
    Unrelated,
    /// Too many occurrences of the child wait for parents. The end waits too.
    Full,
    /// Another node gave the end to the child first.
    Gone,
    /// The lane of the child changed. The caller must read the child again.
    Stale,
}

impl Store {
    /// Lists `limit` waiting ends after the first `skip`, oldest first. Also returns the number of
    /// entries read. Malformed entries are left out, because `doctor` reports them.
    pub async fn list_chain_ends(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<ChainEndRecord>, usize), StoreError> {
        let members = self.waiting_members(&self.keys.chain_ends(), skip, limit).await?;
        let read = |member: &Vec<u8>| {
            Some(ChainEndRecord { member: member.clone(), end: ChainEnd::read(member)? })
        };
        Ok((members.iter().filter_map(read).collect(), members.len()))
    }

    /// Gives ends to children in one pipeline, in this order. Each end has the lane of its child. A
    /// refused end does not affect the remaining ends.
    pub async fn plant_children(
        &self,
        ends: &[(&ChainEndRecord, Lane)],
    ) -> Result<Vec<Result<ChildReply, StoreError>>, StoreError> {
        let calls: Vec<_> = ends.iter().map(|(end, lane)| self.child_call(end, lane)).collect();
        let read = |reply: Result<Reply, StoreError>| {
            let mut reply = reply?;
            Ok(match reply.word.as_str() {
                "planted" => ChildReply::Planted,
                "skipped" => ChildReply::Skipped,
                "awaits" => ChildReply::Awaits(reply.count()?.into()),
                "known" => ChildReply::Known,
                "unrelated" => ChildReply::Unrelated,
                "full" => ChildReply::Full,
                "gone" => ChildReply::Gone,
                "stale" => ChildReply::Stale,
                _ => return Err(reply.unknown()),
            })
        };
        Ok(self.link.invoke_all(&calls).await?.into_iter().map(read).collect())
    }

    fn child_call(&self, end: &ChainEndRecord, lane: &Lane) -> Invocation {
        let run: RunId = end.end.child_run();
        self.call(&scripts::PLANT_CHILD)
            .of_run(&run)
            .of_job_lane(lane)
            .arg("entry", &end.member[..])
            .arg("lane", lane.as_str())
            .arg("most", MOST_WAITING)
    }
}
