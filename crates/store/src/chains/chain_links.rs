//! The links between parents and children, and what a child knows about the ends of its parents.

use redis::Value;

use crate::Store;
use crate::consistency::repair_calls::MendReply;
use crate::jobs::job_records::JobRecord;
use crate::server::reply::text_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::ChainPlaces;
use schedd_schedule::chain::chain_end::{ChainState, ParentEnd};
use schedd_schedule::chain::chain_graph::{ChainGraph, FormerLink};
use schedd_schedule::names::{JobName, RunId};

/// The most links read in one call.
const PAGE: usize = 10_000;
/// The most occurrences that one repair deletes, and the most ends that it gives.
const ITEMS: usize = 500;

impl Store {
    /// Returns all chains: the parents of each job that has parents, and the former links.
    pub async fn read_chains(&self) -> Result<ChainGraph, StoreError> {
        let mut graph = ChainGraph::default();
        let mut from = 0;
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZRANGE").arg(self.keys.chains()).arg(from).arg(from + PAGE - 1);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(members)) = answer.first() else { return Ok(graph) };
            for text in members.iter().filter_map(text_of) {
                let Some((parent, child)) = text.split_once(' ') else { continue };
                match (child.parse(), parent.parse()) {
                    (Ok(child), Ok(parent)) => graph.add(child, parent),
                    _ => graph.former.extend(FormerLink::read(&text)),
                }
            }
            if members.len() < PAGE {
                return Ok(graph);
            }
            from += PAGE;
        }
    }

    /// Returns the occurrences of each of these jobs that wait for parents: the child's run, and the
    /// value of its field.
    pub async fn read_chain_states(
        &self,
        children: &[&JobName],
    ) -> Result<Vec<Vec<(RunId, String)>>, StoreError> {
        let keys: Vec<String> = children.iter().map(|child| self.keys.chain(child)).collect();
        let fields = self.read_fields(&keys).await?;
        let named = |(child, fields): (&&JobName, Vec<(String, String)>)| {
            let run = |occurrence: &str| format!("{child}@{occurrence}").parse::<RunId>().ok();
            fields.into_iter().filter_map(|(field, value)| Some((run(&field)?, value))).collect()
        };
        Ok(children.iter().zip(fields).map(named).collect())
    }

    /// Deletes occurrences of `child` that wait for parents, if their values are unchanged. Returns
    /// how many were deleted.
    pub async fn forget_chain_states(
        &self,
        child: &JobName,
        states: &[(RunId, String)],
    ) -> Result<usize, StoreError> {
        let seen: Vec<(String, String)> =
            states.iter().map(|(run, value)| (occurrence_of(run), value.clone())).collect();
        Ok(self.drop_fields(&self.keys.chain(child), &seen).await?.len())
    }

    /// Deletes former links.
    pub async fn forget_former_links(&self, links: &[FormerLink]) -> Result<(), StoreError> {
        for links in links.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            let command = pipeline.cmd("ZREM").arg(self.keys.chains());
            for FormerLink { parent, child, until } in links {
                command.arg(format!("{parent} {child} {}", until.as_i64()));
            }
            self.link.query(&mut pipeline).await?;
        }
        Ok(())
    }

    /// Makes the links of a job agree with its definition, deletes the occurrences that no longer
    /// wait, and gives ends to those that wait in vain. `record` is the job's record as the caller
    /// read it.
    pub async fn repair_chain(
        &self,
        record: Option<&JobRecord>,
        facts: &ChainPlaces,
    ) -> Result<MendReply, StoreError> {
        let listed: Vec<&str> = facts.listed.iter().map(JobName::as_str).collect();
        let mut call = self
            .call(&scripts::REPAIR_CHAIN)
            .of_job(&facts.name)
            .arg("rev", record.map_or("", |record| record.rev.as_str()))
            .arg("after", &facts.wanted)
            .arg("listed", listed.join(" "));
        let strays = facts.strays.iter().map(|run| (run.clone(), String::new()));
        let lost = facts
            .lost_ends
            .iter()
            .map(|end| (end.run.of_job(facts.name.clone()), end.entry_for(&facts.name)));
        for (run, entry) in strays.take(ITEMS).chain(lost.take(ITEMS)) {
            let item = call.item().of_run(&run).arg("occurrence", occurrence_of(&run));
            call = item.arg("entry", entry);
        }
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "repaired" => MendReply::Mended(std::iter::from_fn(|| reply.text().ok()).collect()),
            "sound" => MendReply::Sound,
            "stale" => MendReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }

    /// Returns the newest run of a child that waits for parents, or `None`.
    pub async fn newest_awaited(&self, child: &JobName) -> Result<Option<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HKEYS").arg(self.keys.chain(child));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(fields)) = answer.first() else { return Ok(None) };
        let run = |field: &Value| format!("{child}@{}", text_of(field)?).parse::<RunId>().ok();
        Ok(fields.iter().filter_map(run).max_by_key(RunId::due))
    }

    /// Returns the ends of the parents of `run`, a run of a child that all parents let run or be
    /// skipped.
    pub async fn read_parent_ends(&self, run: &RunId) -> Result<Vec<ParentEnd>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.run(run)).arg("parents");
        let answer = self.link.query(&mut pipeline).await?;
        let decided = answer.first().and_then(text_of);
        Ok(decided.map_or_else(Vec::new, |ends| ParentEnd::read_all(&ends)))
    }

    /// Returns what the run `run` of a child knows about its parents while it waits for them.
    /// Returns `None` if it does not wait.
    pub async fn read_chain_state(&self, run: &RunId) -> Result<Option<ChainState>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.chain(run.job())).arg(occurrence_of(run));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().and_then(text_of).and_then(|state| ChainState::read(&state)))
    }
}

/// Returns the occurrence of a run: its id behind `@`.
fn occurrence_of(run: &RunId) -> String {
    let id = run.to_string();
    id.split_once('@').map_or_else(String::new, |(_, occurrence)| occurrence.to_owned())
}
