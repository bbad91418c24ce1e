//! Where each occurrence of the job stands: planned, open, on record, in a range of the ledger, and nowhere twice.

use std::collections::BTreeSet;

use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::Ledger;

use super::play::Play;
use crate::scripts::world::name;

impl Play {
    /// Every occurrence there was, those before the planned one of the schedule that holds.
    pub(super) async fn expected(&self) -> BTreeSet<UnixMillis> {
        let record = self.definition().await.unwrap().record;
        let planned =
            record.pending.clone().or(record.paused_run.clone()).filter(|_| record.is_live());
        let mut dues = BTreeSet::new();
        for version in &self.versions {
            let all = std::iter::successors(version.timetable.next_after(version.from), |at| {
                version.timetable.next_after(*at)
            });
            dues.extend(all.take_while(|due| match (version.until, &planned) {
                (Some(until), _) => *due <= until,
                (None, Some(planned)) => *due < planned.due(),
                (None, None) => version.timetable.is_one_shot() || *due <= self.instant(),
            }));
        }
        // What was given back ran, though those before it are still to come.
        dues.extend(self.given_back.iter().copied());
        // Owed from an older schedule, so not yet in any place but this.
        if let Some(planned) = &planned {
            dues.remove(&planned.due());
        }
        dues
    }

    /// Each occurrence stands in exactly one place: planned, in a record, in a range of the ledger, or counted before those.
    pub(crate) async fn assert_accounted(&self) {
        self.world.assert_sound();
        // What was forgotten with its job is told of no more.
        if self.is_forgotten {
            return;
        }
        let ledger = self.world.store.read_ledger(&name("a")).await.unwrap();
        if !ledger.ranges.is_empty() {
            return self.assert_reported_once(&ledger).await;
        }
        let mut left = self.expected().await;
        let mut records = self.records().await;
        for (due, _) in &records {
            assert!(left.remove(due), "{} has a record and is no occurrence, or two", due.as_i64());
        }
        // Of two stretches that overlap by their ends the one that begins later was told first.
        records.sort();
        for (due, skipped) in records.into_iter().rev() {
            let Some((to, count)) = skipped else { continue };
            let covered: Vec<UnixMillis> = left.range(due..=to).copied().collect();
            assert_eq!(
                covered.len() as u64 + 1,
                count,
                "the stretch from {} to {}",
                due.as_i64(),
                to.as_i64()
            );
            for at in covered {
                left.remove(&at);
            }
        }
        assert!(left.is_empty(), "in no place: {left:?}");
    }

    /// The due times of the regular runs that have a record, with the stretches of those that were skipped.
    pub(super) async fn records(&self) -> Vec<(UnixMillis, Option<(UnixMillis, u64)>)> {
        let mut records = Vec::new();
        let prefix = self.world.key("run:");
        for key in self.world.snapshot().into_keys() {
            let Some(id) = key.strip_prefix(&prefix) else { continue };
            let run: RunId = id.parse().unwrap();
            if !run.is_manual() {
                records.push((run.due(), self.world.run(&run).await.skipped));
            }
        }
        records
    }

    /// How many occurrences ranges of the ledger tell of.
    pub(super) async fn reported_in_ranges(&self) -> u64 {
        self.world
            .store
            .read_ledger(&name("a"))
            .await
            .unwrap()
            .ranges
            .iter()
            .map(|range| range.count)
            .sum()
    }

    /// With ranges in the ledger: as many are told of as there were, and each is told of by what holds its time.
    pub(super) async fn assert_reported_once(&self, ledger: &Ledger) {
        let (expected, records) = (self.expected().await, self.records().await);
        let in_records: u64 =
            records.iter().map(|(_, skipped)| skipped.map_or(1, |(_, count)| count)).sum();
        let in_ranges: u64 = ledger.ranges.iter().map(|range| range.count).sum();
        let reported = in_records + in_ranges + ledger.before.values().sum::<u64>();
        assert_eq!(reported, expected.len() as u64, "{records:?} and {ledger:?} of {expected:?}");
        for due in expected {
            let is_in_record = records
                .iter()
                .any(|(from, skipped)| *from <= due && due <= skipped.map_or(*from, |(to, _)| to));
            let is_reported = is_in_record
                || ledger.fate_at(due).is_some()
                || ledger.until.is_some_and(|until| due <= until);
            assert!(is_reported, "in no place: {due:?}");
        }
        assert_eq!(self.world.total("ledger_ranges"), i64::try_from(ledger.ranges.len()).unwrap());
    }
}
