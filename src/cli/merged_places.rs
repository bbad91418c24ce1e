//! The lists of a namespace and of its shards as one list.
//!
//! The entries of an index have places with a total order, whatever shard they are in. So one cursor
//! is right for all shards.

use std::cmp::Ordering;

use futures_util::future::try_join_all;
use futures_util::stream::{self, BoxStream, StreamExt as _};

use crate::cli::failure::CliFailure;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{
    AnsweringPlaces, Ended, ExpiredLease, IndexCursor, JobIndex, JobRecord, RunRecord, Stats,
    Store, StoreError,
};

/// An item with the number of its place among the merged places.
pub(crate) type Placed<T> = (usize, T);

/// An entry of an index with its place there. The name is `None` if it cannot be parsed.
pub(crate) type IndexEntry<T> = (IndexCursor, Placed<Option<T>>);

/// The namespace, and after it those of its shards that answer.
#[derive(Debug, Clone)]
pub(crate) struct MergedPlaces(Vec<Store>);

impl MergedPlaces {
    /// Returns the places of a namespace. Shards that do not answer are left out.
    pub(crate) async fn of(store: &Store) -> Result<Self, CliFailure> {
        Ok(Self(store.answering().await?.stores))
    }

    /// Returns the places of a namespace, and a message for each shard that does not answer.
    pub(crate) async fn with_silent(store: &Store) -> Result<(Self, Vec<String>), CliFailure> {
        let AnsweringPlaces { stores, silent } = store.answering().await?;
        let silent = silent.iter().map(|(shard, error)| silence(shard, error));
        Ok((Self(stores), silent.collect()))
    }

    /// Returns only the place `store`.
    pub(crate) fn only(store: &Store) -> Self {
        Self(vec![store.clone()])
    }

    /// Returns the namespace itself.
    pub(crate) fn home(&self) -> &Store {
        &self.0[0]
    }

    /// Returns the places in their order, the namespace first.
    pub(crate) fn stores(&self) -> &[Store] {
        &self.0
    }

    /// Calls `read` for all places at the same time. Returns the results in the order of the places.
    pub(crate) async fn each<T, E, F>(
        &self,
        read: impl Fn(Store) -> F,
    ) -> Result<Vec<T>, CliFailure>
    where
        F: Future<Output = Result<T, E>>,
        CliFailure: From<E>,
    {
        Ok(try_join_all(self.0.iter().cloned().map(read)).await?)
    }

    /// Calls `read` for each place with its items, at the same time. `read` returns a result for each
    /// item. Returns the results in the order of `items`.
    pub(crate) async fn by_place<T, R, E, F>(
        &self,
        items: Vec<Placed<T>>,
        read: impl Fn(Store, Vec<T>) -> F,
    ) -> Result<Vec<Placed<R>>, CliFailure>
    where
        F: Future<Output = Result<Vec<R>, E>>,
        CliFailure: From<E>,
    {
        let mut parts: Vec<(Vec<usize>, Vec<T>)> = Vec::new();
        parts.resize_with(self.0.len(), Default::default);
        for (at, (place, item)) in items.into_iter().enumerate() {
            parts[place].0.push(at);
            parts[place].1.push(item);
        }
        let asked = parts.into_iter().enumerate().filter(|(_, (_, items))| !items.is_empty());
        let answers = asked.map(|(place, (at, items))| {
            let answer = read(self.0[place].clone(), items);
            async move { answer.await.map(|results| (place, at, results)) }
        });
        let mut all = Vec::new();
        for (place, at, results) in try_join_all(answers).await? {
            all.extend(at.into_iter().zip(results).map(|(at, result)| (at, (place, result))));
        }
        all.sort_by_key(|(at, _)| *at);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }

    /// Reads the counts and sizes of all places together.
    pub(crate) async fn read_stats(&self) -> Result<Stats, CliFailure> {
        let all = self.each(|store| async move { store.read_stats().await }).await?;
        Ok(all.into_iter().reduce(Stats::with_shard).unwrap_or_default())
    }

    /// Returns at most `most` jobs of an index behind `cursor`, as [`Store::page_of_jobs`] does.
    pub(crate) async fn page_of_jobs(
        &self,
        index: JobIndex,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<IndexEntry<JobName>>, CliFailure> {
        let read = |store: Store| async move { store.page_of_jobs(index, cursor, most).await };
        Ok(merged(self.each(read).await?, IndexCursor::compare, most))
    }

    /// Returns at most `most` ended runs behind `cursor`, as [`Store::page_of_ended`] does.
    pub(crate) async fn page_of_ended(
        &self,
        ended: &Ended,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<IndexEntry<RunId>>, CliFailure> {
        let read = |store: Store| async move { store.page_of_ended(ended, cursor, most).await };
        Ok(merged(self.each(read).await?, |a, b| b.compare(a), most))
    }

    /// Returns at most `most` ended runs behind `cursor`, as [`Store::ended_after`] does.
    pub(crate) async fn ended_after(
        &self,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<IndexEntry<RunId>>, CliFailure> {
        let read = |store: Store| async move { store.ended_after(cursor, most).await };
        Ok(merged(self.each(read).await?, IndexCursor::compare, most))
    }

    /// Returns the changes of jobs in all places. The stream ends when that of a place ends.
    pub(crate) async fn job_changes(&self) -> Result<BoxStream<'static, String>, CliFailure> {
        let follow = |store: Store| async move { store.job_changes().await };
        let changes = self.each(follow).await?.into_iter().map(|changes| {
            let end = stream::once(std::future::ready(None));
            changes.map(Some).chain(end).boxed()
        });
        let all = stream::select_all(changes);
        Ok(all.scan((), |(), change| std::future::ready(change)).boxed())
    }

    /// Returns at most `most` leases of each place, without malformed leases.
    pub(crate) async fn list_leases(
        &self,
        most: usize,
    ) -> Result<Vec<Placed<ExpiredLease>>, CliFailure> {
        let read = |store: Store| async move { store.list_leases(most).await };
        let leases = placed(self.each(read).await?).into_iter();
        Ok(leases.filter_map(|(place, lease)| Some((place, lease.ok()?))).collect())
    }

    /// Reads the records of jobs.
    pub(crate) async fn read_jobs(
        &self,
        names: Vec<Placed<JobName>>,
    ) -> Result<Vec<Placed<Result<Option<JobRecord>, StoreError>>>, CliFailure> {
        self.by_place(names, |store, names| async move { store.read_jobs(&names).await }).await
    }

    /// Reads the records of runs. Runs that are not stored, or cannot be read, are left out.
    pub(crate) async fn read_runs(
        &self,
        ids: Vec<Placed<RunId>>,
    ) -> Result<Vec<Placed<RunRecord>>, CliFailure> {
        let read = self.by_place(ids, |store, ids| async move { store.read_runs(&ids).await });
        let records = read.await?.into_iter();
        Ok(records.filter_map(|(place, run)| Some((place, run.ok().flatten()?))).collect())
    }
}

/// Returns the items of all places, the first place first.
pub(crate) fn placed<T>(lists: Vec<Vec<T>>) -> Vec<Placed<T>> {
    let of_place = |(place, list): (usize, Vec<T>)| list.into_iter().map(move |it| (place, it));
    lists.into_iter().enumerate().flat_map(of_place).collect()
}

/// Returns the message for a shard that does not answer.
fn silence(shard: &Store, error: &StoreError) -> String {
    let number = shard.shard_number().unwrap_or_default();
    let why = match error {
        StoreError::Unavailable { why, .. } => why.clone(),
        error => error.to_string(),
    };
    format!("shard {number} ({}) does not answer: {why}", shard.address())
}

/// Merges pages of one index in several places. Each page has the first entries of its place.
pub(crate) fn merged<T>(
    pages: Vec<Vec<(IndexCursor, T)>>,
    order: impl Fn(&IndexCursor, &IndexCursor) -> Ordering,
    most: usize,
) -> Vec<(IndexCursor, Placed<T>)> {
    let entry = |(place, (at, item)): Placed<(IndexCursor, T)>| (at, (place, item));
    let mut all: Vec<_> = placed(pages).into_iter().map(entry).collect();
    all.sort_by(|(a, _), (b, _)| order(a, b));
    all.truncate(most);
    all
}
