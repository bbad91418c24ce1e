//! The links between parents and children, and what a child knows about the ends of its parents.

use redis::Value;

use crate::domain::name::names::{JobName, RunId};
use crate::domain::schedule::chain::chain_end::ParentEnd;
use crate::domain::schedule::chain::chain_graph::ChainGraph;
use crate::store::Store;
use crate::store::server::reply::text_of;
use crate::store::server::store_error::StoreError;

/// The most links read in one call.
const PAGE: usize = 10_000;

impl Store {
    /// Returns all chains: the parents of each job that has parents.
    pub async fn read_chains(&self) -> Result<ChainGraph, StoreError> {
        let mut graph = ChainGraph::default();
        let mut from = 0;
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZRANGE").arg(self.keys.chains()).arg(from).arg(from + PAGE - 1);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(members)) = answer.first() else { return Ok(graph) };
            let links = members.iter().filter_map(text_of).filter_map(|text| {
                let (parent, child) = text.split_once(' ')?;
                Some((child.parse::<JobName>().ok()?, parent.parse::<JobName>().ok()?))
            });
            links.for_each(|(child, parent)| graph.add(child, parent));
            if members.len() < PAGE {
                return Ok(graph);
            }
            from += PAGE;
        }
    }

    /// Returns the ends of those parents that have ended for the run `run` of a child. The ends of
    /// a decided run are in its record, and the ends of a run that waits are in the state of its
    /// chain.
    pub async fn read_parent_ends(&self, run: &RunId) -> Result<Vec<ParentEnd>, StoreError> {
        let id = run.to_string();
        let occurrence = id.split_once('@').map_or("", |(_, occurrence)| occurrence);
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.run(run)).arg("parents");
        pipeline.cmd("HGET").arg(self.keys.chain(run.job())).arg(occurrence);
        let answer = self.link.query(&mut pipeline).await?;
        let text = |at: usize| answer.get(at).and_then(text_of);
        Ok(match (text(0), text(1)) {
            (Some(decided), _) => ParentEnd::read_all(&decided),
            (None, Some(waits)) => ParentEnd::read_state(&waits),
            (None, None) => Vec::new(),
        })
    }
}
