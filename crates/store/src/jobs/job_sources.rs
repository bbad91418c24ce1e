//! The jobs files that list a job: the file of each node, and each file applied with `schedctl`.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::names::{JobName, NodeName};

/// The most jobs read in one pipeline.
const PAGE: usize = 1_000;

impl Store {
    /// Returns the jobs that the file `source` lists, each with the hash of its definition when the
    /// file was last applied.
    pub async fn list_source(
        &self,
        source: &SourceName,
    ) -> Result<BTreeMap<JobName, String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGETALL").arg(self.keys.source(source));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(BTreeMap::new()) };
        Ok(flat
            .chunks_exact(2)
            .filter_map(|pair| Some((text_of(&pair[0])?.parse().ok()?, text_of(&pair[1])?)))
            .collect())
    }

    /// Returns the jobs that the file `source` lists, each with the hash of its definition when the
    /// file was last applied. The hash is empty for a job that the file must apply again, because
    /// its record is gone or has another hash for this file.
    pub async fn read_source(
        &self,
        source: &SourceName,
    ) -> Result<BTreeMap<JobName, String>, StoreError> {
        let mut listed: Vec<(JobName, String)> =
            self.list_source(source).await?.into_iter().collect();
        for some in listed.chunks_mut(PAGE) {
            let mut pipeline = redis::pipe();
            for (name, _) in some.iter() {
                pipeline.cmd("HGET").arg(self.keys.job(name)).arg(format!("src:{source}"));
            }
            for ((_, hash), said) in some.iter_mut().zip(self.well_typed(&mut pipeline).await?) {
                if text_of(&said).as_ref() != Some(hash) {
                    hash.clear();
                }
            }
        }
        Ok(listed.into_iter().collect())
    }

    /// Returns the names of all jobs that at least one jobs file lists.
    pub async fn list_listed(&self) -> Result<BTreeSet<JobName>, StoreError> {
        self.names_of(&self.sources().await?).await
    }

    /// Returns the jobs that the files and instances of nodes list. Leaves out applied files, so this
    /// call scans no keys.
    pub async fn list_listed_by_nodes(&self) -> Result<BTreeSet<JobName>, StoreError> {
        let sources: Vec<SourceName> = self.node_sources().await?.into_iter().collect();
        self.names_of(&sources).await
    }

    async fn names_of(&self, sources: &[SourceName]) -> Result<BTreeSet<JobName>, StoreError> {
        let mut pipeline = redis::pipe();
        for source in sources {
            pipeline.cmd("HKEYS").arg(self.keys.source(source));
        }
        let answers =
            if sources.is_empty() { Vec::new() } else { self.link.ask(&mut pipeline).await? };
        // A list of the wrong type counts as empty. The consistency check reports the list.
        let lists = answers.into_iter().filter_map(|answer| match answer {
            Ok(Value::Array(names)) => Some(names),
            _ => None,
        });
        Ok(lists.flatten().filter_map(|name| text_of(&name)?.parse().ok()).collect())
    }

    /// Returns, for each of these jobs, the files that list the job. Jobs that no file lists are
    /// left out.
    pub async fn read_listed(
        &self,
        names: &[JobName],
    ) -> Result<BTreeMap<JobName, Vec<SourceName>>, StoreError> {
        let mut listed: BTreeMap<JobName, Vec<SourceName>> = BTreeMap::new();
        if names.is_empty() {
            return Ok(listed);
        }
        for source in self.sources().await? {
            let mut pipeline = redis::pipe();
            for name in names {
                pipeline.cmd("HEXISTS").arg(self.keys.source(&source)).arg(name.as_str());
            }
            for (name, answer) in names.iter().zip(self.link.ask(&mut pipeline).await?) {
                if answer.is_ok_and(|answer| number_of(&answer) == Some(1)) {
                    listed.entry(name.clone()).or_default().push(source.clone());
                }
            }
        }
        Ok(listed)
    }

    /// Returns the sources that may have a list of jobs: the files and the instances of nodes, and
    /// the applied files. This call scans all keys of the namespace.
    async fn sources(&self) -> Result<Vec<SourceName>, StoreError> {
        let mut sources = self.node_sources().await?;
        sources.extend(self.list_applied().await?);
        Ok(sources.into_iter().collect())
    }

    /// Returns the files and the instances of nodes. Returns none if the node index has the wrong type;
    /// the consistency check reports the index.
    async fn node_sources(&self) -> Result<BTreeSet<SourceName>, StoreError> {
        let nodes = match self.list_nodes().await {
            Ok((_, nodes)) => nodes,
            Err(StoreError::WrongType { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let nodes = nodes.iter().filter_map(|node| node.name.parse::<NodeName>().ok());
        Ok(nodes
            .flat_map(|node| [SourceName::from(&node), SourceName::instances_on(&node)])
            .collect())
    }

    /// Lists the applied files that list at least one job. This call scans all keys of the
    /// namespace.
    pub async fn list_applied(&self) -> Result<Vec<SourceName>, StoreError> {
        let keys = self.scan_keys("source:apply:*").await?;
        Ok(keys
            .into_iter()
            .filter_map(|key| key.rest.strip_prefix("source:")?.parse().ok())
            .collect())
    }
}
