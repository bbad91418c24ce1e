//! The consistency check of kept outputs against their indexes, and the repair of the indexes. Each
//! output is listed in the common index and in the index of its job.

use redis::Value;

use crate::Store;
use crate::server::member_text::{member_bytes, shown_member};
use crate::server::reply::number_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_schedule::names::{JobName, RunId};

/// The number of outputs in one call.
const PAGE: usize = 1_000;
/// The number of indexes read in one call.
const INDEXES: usize = 20;

/// The differences between kept outputs and their indexes.
#[derive(Debug, Clone, Default)]
pub struct OutputFacts {
    /// The index members without an output, each as index and member. The index is a key without
    /// the namespace.
    pub missing: Vec<(String, String)>,
    /// The outputs that at least one index does not list, as keys without the namespace.
    pub unlisted: Vec<String>,
}

impl Store {
    /// Compares the kept outputs with their indexes. Both are given as keys without the namespace.
    pub async fn compare_outputs(
        &self,
        outputs: &[String],
        indexes: &[String],
    ) -> Result<OutputFacts, StoreError> {
        let mut facts = OutputFacts::default();
        for some in outputs.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for rest in some {
                let name = rest.strip_prefix("output:").unwrap_or(rest);
                let index = job_of(name)
                    .map_or_else(|| self.keys.outputs(), |job| self.keys.job_outputs(&job));
                pipeline.cmd("ZSCORE").arg(self.keys.outputs()).arg(member_bytes(name));
                pipeline.cmd("ZSCORE").arg(index).arg(member_bytes(name));
            }
            let answers = self.link.ask(&mut pipeline).await?;
            let is_unlisted = |pair: &[Result<Value, _>]| {
                pair.iter().any(|score| matches!(score, Ok(Value::Nil)))
            };
            let unlisted =
                some.iter().zip(answers.chunks_exact(2)).filter(|(_, pair)| is_unlisted(pair));
            facts.unlisted.extend(unlisted.map(|(rest, _)| rest.clone()));
        }
        let mut left: Vec<(&String, usize)> = indexes.iter().map(|index| (index, 0)).collect();
        while !left.is_empty() {
            let some = left.split_off(left.len().saturating_sub(INDEXES));
            left.extend(self.find_missing(some, &mut facts.missing).await?);
        }
        Ok(facts)
    }

    /// Finds members without an output in one page of each of these indexes. Returns the indexes
    /// that have further pages, with the position of the next page.
    async fn find_missing<'a>(
        &self,
        pages: Vec<(&'a String, usize)>,
        missing: &mut Vec<(String, String)>,
    ) -> Result<Vec<(&'a String, usize)>, StoreError> {
        let mut pipeline = redis::pipe();
        for (index, at) in &pages {
            pipeline
                .cmd("ZRANGE")
                .arg(member_bytes(&self.keys.whole(index)))
                .arg(*at)
                .arg(at + PAGE - 1);
        }
        let (mut found, mut longer) = (Vec::new(), Vec::new());
        for ((index, at), members) in pages.into_iter().zip(self.link.query(&mut pipeline).await?) {
            let Value::Array(members) = members else { continue };
            if members.len() == PAGE {
                longer.push((index, at + PAGE));
            }
            found.extend(members.iter().filter_map(shown_member).map(|member| (index, member)));
        }
        for some in found.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for (_, member) in some {
                pipeline
                    .cmd("EXISTS")
                    .arg(member_bytes(&self.keys.whole(&format!("output:{member}"))));
            }
            let answers = self.link.query(&mut pipeline).await?;
            let gone =
                some.iter().zip(answers).filter(|(_, is_there)| number_of(is_there) == Some(0));
            missing.extend(gone.map(|((index, member), _)| ((*index).clone(), member.clone())));
        }
        Ok(longer)
    }

    /// Removes members without an output from their indexes, and adds each unlisted output to its
    /// indexes.
    pub async fn mend_outputs(&self, facts: &OutputFacts) -> Result<(), StoreError> {
        for some in facts.missing.chunks(100) {
            let mut call = self.call(&scripts::FORGET_OUTPUTS);
            for (index, member) in some {
                let job = job_of(member);
                let own = job
                    .as_ref()
                    .map_or_else(|| self.keys.outputs(), |job| self.keys.job_outputs(job));
                let index = if index == "outputs" { own } else { self.keys.whole(index) };
                call = call
                    .item()
                    .key("output", member_bytes(&self.keys.whole(&format!("output:{member}"))))
                    .key("job_outputs", member_bytes(&index))
                    .arg("member", member_bytes(member))
                    .arg("job_name", job.as_ref().map_or("", |job| job.as_str()));
            }
            self.link.invoke(&call).await?;
        }
        let now = self.now().await?.as_i64();
        for some in facts.unlisted.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for rest in some {
                let name = rest.strip_prefix("output:").unwrap_or(rest);
                pipeline
                    .cmd("ZADD")
                    .arg(self.keys.outputs())
                    .arg("NX")
                    .arg(now)
                    .arg(member_bytes(name));
                if let Some(job) = job_of(name) {
                    pipeline
                        .cmd("ZADD")
                        .arg(self.keys.job_outputs(&job))
                        .arg("NX")
                        .arg(now)
                        .arg(member_bytes(name));
                }
            }
            self.link.query(&mut pipeline).await?;
        }
        Ok(())
    }
}

/// Returns the job of an output named `RUN#ATTEMPT`; None if the name is malformed.
pub(crate) fn job_of(output: &str) -> Option<JobName> {
    let (run, _) = output.split_once('#')?;
    Some(run.parse::<RunId>().ok()?.job().clone())
}
