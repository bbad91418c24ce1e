//! The keys of the namespace themselves, and what only they tell: their types, those that expire, counters beside what they
//! count, namespaces that differ by their spelling. Read by `doctor` only: it goes over the whole Redis.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::polling::RipeEntry;
use super::quarantine::{Quarantined, member_bytes, shown_member};
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::books::{CountFacts, KeyFacts};
use crate::domain::ids::{Fence, JobName, QueueName, RunId};

/// Keys looked at in one call.
const PAGE: usize = 1_000;
/// More leases than there can be.
const ALL_LEASES: usize = 100_000_000;
/// How often what moves is counted again.
const TRIES: usize = 3;

impl Store {
    /// The keys of the namespace whose names within it match the pattern `of`: what each holds, and whether it goes by itself.
    pub async fn scan_keys(&self, of: &str) -> Result<Vec<KeyFacts>, StoreError> {
        let pattern = self.keys.whole(of);
        let mut found: BTreeMap<String, KeyFacts> = BTreeMap::new();
        self.scan(&pattern, async |names: Vec<Vec<u8>>| {
            let mut pipeline = redis::pipe();
            for name in &names {
                pipeline.cmd("TYPE").arg(name);
                pipeline.cmd("PTTL").arg(name);
            }
            let answers = self.link.query(&mut pipeline).await?;
            for (name, pair) in names.into_iter().zip(answers.chunks_exact(2)) {
                let Some(name) = shown_member(&Value::BulkString(name)) else { continue };
                let kind = text_of(&pair[0]).unwrap_or_default();
                // Gone meanwhile.
                if kind == "none" {
                    continue;
                }
                let rest = self.keys.rest(&name).unwrap_or_default().to_owned();
                let expires = number_of(&pair[1]).is_some_and(|ms| ms >= 0);
                found.insert(name.clone(), KeyFacts { name, rest, kind, expires });
            }
            Ok(())
        })
        .await?;
        Ok(found.into_values().collect())
    }

    /// How one key stands now; none if it is gone.
    pub async fn look_at_key(&self, name: &str) -> Result<Option<KeyFacts>, StoreError> {
        let bytes = member_bytes(name);
        let mut pipeline = redis::pipe();
        pipeline.cmd("TYPE").arg(&bytes);
        pipeline.cmd("PTTL").arg(&bytes);
        let answers = self.link.query(&mut pipeline).await?;
        let kind = answers.first().and_then(text_of).unwrap_or_default();
        let rest = self.keys.rest(name).unwrap_or_default().to_owned();
        let expires = answers.get(1).and_then(number_of).is_some_and(|ms| ms >= 0);
        Ok((kind != "none").then(|| KeyFacts { name: name.to_owned(), rest, kind, expires }))
    }

    /// Has a key stay.
    pub async fn persist_key(&self, name: &str) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("PERSIST").arg(member_bytes(name));
        Ok(self.link.query(&mut pipeline).await?.first().and_then(number_of) == Some(1))
    }

    /// Namespaces in this Redis whose names are this one's but for upper and lower case.
    pub async fn namespaces_like_this(&self) -> Result<BTreeSet<String>, StoreError> {
        let own = self.namespace();
        let either = |c: char| match (c.to_ascii_lowercase(), c.to_ascii_uppercase()) {
            (lower, upper) if lower == upper => lower.to_string(),
            (lower, upper) => format!("[{lower}{upper}]"),
        };
        let pattern = format!("{{{}}}:*", own.chars().map(either).collect::<String>());
        let mut others = BTreeSet::new();
        self.scan(&pattern, async |names: Vec<Vec<u8>>| {
            for name in names {
                let text = String::from_utf8_lossy(&name).into_owned();
                let tag = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(tag, _)| tag.to_owned());
                others.extend(tag.filter(|tag| tag != own));
            }
            Ok(())
        })
        .await?;
        Ok(others)
    }

    async fn scan(
        &self,
        pattern: &str,
        mut page: impl AsyncFnMut(Vec<Vec<u8>>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut cursor = 0_u64;
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(parts)) = answer.first() else { return Ok(()) };
            let [next, Value::Array(names)] = parts.as_slice() else { return Ok(()) };
            let names: Vec<Vec<u8>> = names
                .iter()
                .filter_map(|name| match name {
                    Value::BulkString(bytes) => Some(bytes.clone()),
                    _ => None,
                })
                .collect();
            if !names.is_empty() {
                page(names).await?;
            }
            cursor = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// The counters, and what they count; what moved each time it was counted is left out. `waiting` and `outputs` are the names
    /// within the namespace of the sets of waiting runs and of the kept outputs.
    pub async fn count_facts(&self, waiting: &[String], outputs: &[String]) -> Result<CountFacts, StoreError> {
        let mut facts = CountFacts::default();
        for _ in 0..TRIES {
            let before = self.counters().await?;
            let counted = [self.sum("ZCARD", waiting, None).await?, self.sum("HGET", outputs, Some("size")).await?];
            let after = self.counters().await?;
            facts.waiting_counted = (before.0 == after.0).then_some(counted[0]);
            facts.output_counted = (before.1 == after.1).then_some(counted[1]);
            (facts.waiting, facts.output_bytes, facts.fence) = after;
            if facts.waiting_counted.is_some() && facts.output_counted.is_some() {
                break;
            }
        }
        facts.highest = self.read_leased(ALL_LEASES).await?.into_values().flatten().max();
        // A claim may have been won since the counter was read.
        if facts.highest.is_some_and(|highest| facts.fence.as_deref().is_none_or(|last| Some(highest) > fence_of(last))) {
            facts.fence = self.counters().await?.2;
        }
        Ok(facts)
    }

    async fn counters(&self) -> Result<(Option<String>, Option<String>, Option<String>), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.totals()).arg("waiting");
        pipeline.cmd("GET").arg(self.keys.output_bytes());
        pipeline.cmd("GET").arg(self.keys.fence());
        let answers = self.link.query(&mut pipeline).await?;
        let text = |at: usize| answers.get(at).and_then(shown_member);
        Ok((text(0), text(1), text(2)))
    }

    /// The sum of a number of each of some keys; what holds something else counts nothing.
    async fn sum(&self, command: &str, names: &[String], field: Option<&str>) -> Result<u64, StoreError> {
        let mut sum = 0;
        for some in names.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for name in some {
                let ask = pipeline.cmd(command).arg(member_bytes(&self.keys.whole(name)));
                if let Some(field) = field {
                    ask.arg(field);
                }
            }
            let answers = self.link.ask(&mut pipeline).await?;
            let numbers = answers.iter().filter_map(|answer| number_of(answer.as_ref().ok()?));
            sum += numbers.filter_map(|number| u64::try_from(number).ok()).sum::<u64>();
        }
        Ok(sum)
    }

    /// What is wrong between kept outputs and their index: members of it without an output, and outputs, by their names within
    /// the namespace, that it does not name.
    pub async fn compare_outputs(&self, outputs: &[String]) -> Result<(Vec<String>, Vec<String>), StoreError> {
        let mut unlisted = Vec::new();
        for some in outputs.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for rest in some {
                pipeline.cmd("ZSCORE").arg(self.keys.outputs()).arg(rest.strip_prefix("output:").unwrap_or(rest));
            }
            let answers = self.link.query(&mut pipeline).await?;
            unlisted.extend(some.iter().zip(answers).filter(|(_, score)| *score == Value::Nil).map(|(rest, _)| rest.clone()));
        }
        let (mut missing, mut at) = (Vec::new(), 0_usize);
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZRANGE").arg(self.keys.outputs()).arg(at).arg(at + PAGE - 1);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(members)) = answer.first() else { break };
            if members.is_empty() {
                break;
            }
            let members: Vec<String> = members.iter().filter_map(shown_member).collect();
            at += members.len();
            let mut pipeline = redis::pipe();
            for member in &members {
                pipeline.cmd("EXISTS").arg(member_bytes(&self.keys.whole(&format!("output:{member}"))));
            }
            let answers = self.link.query(&mut pipeline).await?;
            let gone = members.into_iter().zip(answers).filter(|(_, is_there)| number_of(is_there) == Some(0));
            missing.extend(gone.map(|(member, _)| member));
        }
        Ok((missing, unlisted))
    }

    /// A page of each of some sorted sets, by their names within the namespace and the places to go on from; with where the next
    /// begins, 0 = there is none. What holds something else is empty.
    pub async fn scan_sets(&self, sets: &[(String, u64)]) -> Result<Vec<(Vec<RipeEntry>, u64)>, StoreError> {
        let mut pipeline = redis::pipe();
        for (rest, cursor) in sets {
            pipeline.cmd("ZSCAN").arg(member_bytes(&self.keys.whole(rest))).arg(*cursor).arg("COUNT").arg(PAGE);
        }
        let read = |answer: Result<Value, redis::RedisError>| {
            let Ok(Value::Array(parts)) = answer else { return (Vec::new(), 0) };
            let [next, Value::Array(flat)] = parts.as_slice() else { return (Vec::new(), 0) };
            let entry = |pair: &[Value]| Some(RipeEntry { member: shown_member(&pair[0])?, score: text_of(&pair[1])? });
            let next = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            (flat.chunks_exact(2).filter_map(entry).collect(), next)
        };
        Ok(self.link.ask(&mut pipeline).await?.into_iter().map(read).collect())
    }

    /// The fields of the wishes to stop runs.
    pub async fn list_stops(&self) -> Result<Vec<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HKEYS").arg(self.keys.stops());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(fields)) = answer.first() else { return Ok(Vec::new()) };
        Ok(fields.iter().filter_map(shown_member).collect())
    }

    /// Moves an entry of the sorted set `rest` of the namespace aside, if it still is what was seen.
    pub async fn quarantine_entry(&self, rest: &str, entry: &RipeEntry, why: &str) -> Result<Quarantined, StoreError> {
        self.quarantine(&self.keys.whole(rest), entry, why).await
    }

    /// Takes entries without an output out of their index, and puts outputs it does not name into it, as [`Store::compare_outputs`]
    /// told them.
    pub async fn mend_outputs(&self, missing: &[String], unlisted: &[String]) -> Result<(), StoreError> {
        for some in missing.chunks(100) {
            let mut call = Invocation::new(&scripts::FORGET_OUTPUTS)
                .key("outputs", self.keys.outputs())
                .key("output_bytes", self.keys.output_bytes())
                .key("output_sizes", self.keys.output_sizes())
                .key("totals", self.keys.totals());
            for member in some {
                let output = member_bytes(&self.keys.whole(&format!("output:{member}")));
                // What names no run is in no job's index.
                let job = job_of(member);
                let index = job.as_ref().map_or_else(|| self.keys.outputs(), |job| self.keys.job_outputs(job));
                call = call
                    .key("output", output)
                    .key("job_outputs", index)
                    .arg("member", member_bytes(member))
                    .arg("job_name", job.as_ref().map_or("", |job| job.as_str()));
            }
            self.link.invoke(&call).await?;
        }
        let now = self.now().await?.as_i64();
        for some in unlisted.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for rest in some {
                let name = rest.strip_prefix("output:").unwrap_or(rest);
                pipeline.cmd("ZADD").arg(self.keys.outputs()).arg("NX").arg(now).arg(member_bytes(name));
                if let Some(job) = job_of(name) {
                    pipeline.cmd("ZADD").arg(self.keys.job_outputs(&job)).arg("NX").arg(now).arg(member_bytes(name));
                }
            }
            self.link.query(&mut pipeline).await?;
        }
        Ok(())
    }

    /// The whole name of the key `rest` of the namespace.
    pub fn key_named(&self, rest: &str) -> String {
        self.keys.whole(rest)
    }

    /// The ready time of a run in the due set of `queue`, as text; none if it is not there.
    pub async fn due_score(&self, queue: &QueueName, run: &RunId) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.due(queue)).arg(run.to_string());
        Ok(self.link.query(&mut pipeline).await?.first().and_then(text_of))
    }
}

fn fence_of(text: &str) -> Option<Fence> {
    text.parse().ok().and_then(Fence::new)
}

/// The job of an output, by its name `RUN#ATTEMPT`.
fn job_of(output: &str) -> Option<JobName> {
    let (run, _) = output.split_once('#')?;
    Some(run.parse::<RunId>().ok()?.job().clone())
}
