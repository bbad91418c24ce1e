//! The lanes that the next poll reads. A poll reads at most [`PAGE`] lanes, so a poll costs the same
//! for any number of lanes.
//!
//! Invariant: a poll leaves out a lane for one of three reasons only. The lane is known to have no
//! run before a later time, no slot is free for it, or polls read other lanes first, each in turn.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::slots::Offer;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::Share;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{LanePart, PollTrace};

/// The most lanes that a poll reads.
const PAGE: usize = 100;
/// The interval at which a page of known ready times is forgotten. So a run that was added without a
/// change of the counters, for example by hand, is found in the end.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The known ready times of a node's lanes.
#[derive(Default)]
pub(crate) struct LanePages {
    /// The ready time of the next run of each lane without due runs, with the part of the lane.
    /// `None` if no run is planned.
    next: BTreeMap<Lane, (LanePart, Option<UnixMillis>)>,
    /// The last poll: its state of the data, its time by Redis' clock, and when it was sent.
    last: Option<(PollTrace, UnixMillis, BootInstant)>,
    /// The time by Redis' clock that the last page assumed. `None` for a page of all lanes.
    assumed: Option<UnixMillis>,
    /// When a page of ready times was last forgotten, and the last lane of this page.
    forgotten: Option<(BootInstant, Option<Lane>)>,
    /// The queue with which the next page begins.
    turn: Option<QueueName>,
}

/// The offers that the next poll reads.
pub(crate) struct LanePage {
    pub(crate) offers: Vec<Offer>,
    /// True if no lane was left to another page.
    pub(crate) is_whole: bool,
}

impl LanePages {
    /// Returns the lanes of `offers` to read in a poll that is sent at `sent`. Strict queues come
    /// first, and the other queues in turn.
    pub(crate) fn page(&mut self, mut offers: Vec<Offer>, sent: BootInstant) -> LanePage {
        self.forget_old(sent);
        // The time of the last poll was rounded down to a millisecond.
        let passed = |at: BootInstant| sent.since(at).saturating_add(Duration::from_millis(1));
        let now = self.last.as_ref().map(|(_, now, at)| now.saturating_add(passed(*at)));
        self.assumed = now;
        for offer in &mut offers {
            offer.lanes.retain(|lane| match self.next.get(lane) {
                Some((_, next)) => next.is_some_and(|next| now.is_none_or(|now| next <= now)),
                None => true,
            });
        }
        offers.retain(|offer| offer.slots > 0 && !offer.lanes.is_empty());
        let first = offers.iter().position(|offer| Some(&offer.queue) >= self.turn.as_ref());
        offers.rotate_left(first.unwrap_or(0));
        offers.sort_by_key(|offer| offer.share != Share::Strict);
        let (mut room, mut has_weighted, mut turn) = (PAGE, false, None);
        let mut page = LanePage { offers: Vec::new(), is_whole: true };
        for mut offer in offers {
            // Strict queues come first, but leave half of a page to the others.
            let is_strict = offer.share == Share::Strict;
            let most = if is_strict { room.saturating_sub(PAGE / 2) } else { room };
            let is_cut = offer.lanes.len() > most;
            page.is_whole &= !is_cut;
            if is_cut && has_weighted && turn.is_none() {
                turn = Some(offer.queue.clone());
            }
            has_weighted |= !is_strict;
            offer.lanes.truncate(most);
            room -= offer.lanes.len();
            if !offer.lanes.is_empty() {
                page.offers.push(offer);
            }
        }
        self.turn = turn.or(self.turn.take());
        page
    }

    /// Forgets the next page of known ready times, if it is time.
    fn forget_old(&mut self, now: BootInstant) {
        let (at, last) = self.forgotten.take().unwrap_or((now, None));
        if now.since(at) < FORGET_EVERY {
            self.forgotten = Some((at, last));
            return;
        }
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let old: Vec<Lane> = self
            .next
            .range((after, Bound::Unbounded))
            .take(PAGE)
            .map(|(lane, _)| lane.clone())
            .collect();
        for lane in &old {
            self.next.remove(lane);
        }
        self.forgotten = Some((now, old.last().cloned()));
    }

    /// Records a poll that was sent at `sent`: its time by Redis' clock, and its state of the data, or
    /// `None` if the state proves nothing. Forgets the ready times of the lanes that may have an
    /// earlier first run since the poll before, and those that the page left out although their first
    /// run is ready, because Redis' clock was further than the page assumed. Returns true if ready
    /// times were forgotten, so that the lanes that this poll left out must be read.
    pub(crate) fn note_poll(
        &mut self,
        now: UnixMillis,
        trace: Option<&PollTrace>,
        sent: BootInstant,
    ) -> bool {
        let changed = match (trace, &self.last) {
            (Some(trace), Some((before, at, _))) if now >= *at && trace.is_of_same_data(before) => {
                trace.counts().lanes_since(before.counts())
            }
            _ => None,
        };
        let known = self.next.len();
        if let Some(assumed) = self.assumed {
            let is_late = |next: &UnixMillis| assumed < *next && *next <= now;
            self.next.retain(|_, (_, next)| !next.as_ref().is_some_and(is_late));
        }
        match changed {
            Some(parts) if parts.is_empty() => {}
            Some(parts) => self.next.retain(|_, (part, _)| !parts.contains(part)),
            None => self.next.clear(),
        }
        let is_forgotten = self.next.len() < known;
        self.last = trace.map(|trace| (trace.clone(), now, sent));
        is_forgotten
    }

    /// Records that the last poll found no due run in `lane`, and the ready time of its next run.
    /// Returns true if later polls leave out the lane until then.
    pub(crate) fn note_next(&mut self, lane: &Lane, next: Option<UnixMillis>) -> bool {
        if self.last.is_some() {
            self.next.insert(lane.clone(), (LanePart::of(lane), next));
        }
        self.last.is_some()
    }

    /// Records that the last poll found due runs in `lane`, or could not read the lane.
    pub(crate) fn forget(&mut self, lane: &Lane) {
        self.next.remove(lane);
    }

    /// Returns the first ready time after `now` of the known lanes. An earlier time is of a lane
    /// without a free slot, and the end of a run wakes the node.
    pub(crate) fn first_after(&self, now: UnixMillis) -> Option<UnixMillis> {
        self.next.values().filter_map(|(_, next)| *next).filter(|next| *next > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_nanos(1_000_000 * (1_000_000 + ms))
    }

    fn t(ms: i64) -> UnixMillis {
        UnixMillis::new(1_790_000_000_000 + ms).unwrap()
    }

    /// Returns offers of `queues` queues with `lanes` lanes each.
    fn offers(queues: usize, lanes: usize) -> Vec<Offer> {
        let offer = |number: usize| {
            let lane = |priority: usize| format!("q{number:03}!{}", priority + 1).parse().unwrap();
            let queue = format!("q{number:03}").parse().unwrap();
            Offer {
                queue,
                lanes: (0..lanes).map(lane).collect(),
                slots: 1,
                share: Share::Weight(1),
            }
        };
        (0..queues).map(offer).collect()
    }

    fn lanes(page: &LanePage) -> Vec<Lane> {
        page.offers.iter().flat_map(|offer| offer.lanes.clone()).collect()
    }

    #[test]
    fn a_lane_is_read_at_once_if_the_clock_went_further_than_the_page_assumed() {
        let mut pages = LanePages::default();
        let trace = PollTrace::counted(&[1]);
        let all = lanes(&pages.page(offers(3, 1), at(0)));
        pages.note_poll(t(0), Some(&trace), at(0));
        for (lane, next) in all.iter().zip([Some(t(50)), Some(t(5_000)), None]) {
            assert!(pages.note_next(lane, next));
        }
        let read = |pages: &mut LanePages, ms| lanes(&pages.page(offers(3, 1), at(ms)));
        assert_eq!(read(&mut pages, 30), []);
        assert!(!pages.note_poll(t(31), Some(&trace), at(30)));
        assert_eq!(read(&mut pages, 47), []);
        assert!(pages.note_poll(t(50), Some(&trace), at(47)), "the clock of Redis is slewed");
        assert_eq!(read(&mut pages, 48), all[..1]);
        pages.note_next(&all[0], None);
        assert!(!pages.note_poll(t(60), Some(&trace), at(58)));
        assert_eq!(read(&mut pages, 60), []);
        assert!(pages.note_poll(t(9_000), Some(&trace), at(60)), "the clock of Redis was set");
        assert_eq!(read(&mut pages, 60), all[1..2]);
    }

    #[test]
    fn pages_of_many_lanes_read_each_lane_once_until_its_next_run_is_ready() {
        let mut pages = LanePages::default();
        let trace = PollTrace::counted(&[1]);
        let mut read = Vec::new();
        loop {
            let page = pages.page(offers(125, 2), at(0));
            assert!(lanes(&page).len() <= PAGE);
            pages.note_poll(t(0), Some(&trace), at(0));
            for (number, lane) in lanes(&page).iter().enumerate() {
                pages.note_next(lane, (number == 0).then(|| t(50)));
            }
            read.extend(lanes(&page));
            if page.is_whole {
                break;
            }
        }
        assert_eq!(read, lanes(&LanePage { offers: offers(125, 2), is_whole: true }));
        assert_eq!(pages.first_after(t(0)), Some(t(50)));
        assert_eq!(pages.first_after(t(50)), None);
        assert_eq!(lanes(&pages.page(offers(125, 2), at(10))), []);
        assert_eq!(lanes(&pages.page(offers(125, 2), at(50))).len(), 3, "three lanes have a run");
        pages.forget(&read[1]);
        assert_eq!(lanes(&pages.page(offers(125, 2), at(10))), [read[1].clone()]);
    }

    #[test]
    fn a_page_of_known_times_is_forgotten_each_minute_in_turn() {
        let mut pages = LanePages::default();
        pages.page(offers(125, 2), at(0));
        pages.note_poll(t(0), Some(&PollTrace::counted(&[1])), at(0));
        let mut all = lanes(&LanePage { offers: offers(125, 2), is_whole: true });
        all.sort();
        for (minute, forgotten) in [(0, 0..0), (1, 0..100), (2, 100..200), (3, 200..250), (4, 0..0)]
        {
            for lane in &all {
                pages.note_next(lane, None);
            }
            let page = pages.page(offers(125, 2), at(minute * 60_000));
            assert!(lanes(&page) == all[forgotten], "{minute}");
        }
    }

    #[test]
    fn a_counted_change_or_a_poll_without_proof_forgets_all_ready_times() {
        let known = |trace: Option<&PollTrace>, now| {
            let mut pages = LanePages::default();
            let page = pages.page(offers(125, 1), at(0));
            pages.note_poll(t(0), Some(&PollTrace::counted(&[1])), at(0));
            for lane in lanes(&page) {
                pages.note_next(&lane, None);
            }
            let is_forgotten = pages.note_poll(now, trace, at(1));
            let is_known = lanes(&pages.page(offers(125, 1), at(1))).len() == 25;
            assert_ne!(is_forgotten, is_known, "the caller must read the lanes that were left out");
            is_known
        };
        assert!(known(Some(&PollTrace::counted(&[1])), t(1)));
        assert!(!known(Some(&PollTrace::counted(&[1, 0, 0, 9])), t(1)), "any counter");
        assert!(!known(Some(&PollTrace::counted(&[2])), t(1)));
        assert!(!known(None, t(1)));
        assert!(!known(Some(&PollTrace::counted(&[1])), t(-1)), "the clock went back");
    }

    #[test]
    fn a_change_of_one_lane_forgets_the_lanes_of_its_part() {
        let mut pages = LanePages::default();
        let all = lanes(&pages.page(offers(125, 1), at(0)));
        pages.note_poll(t(0), Some(&PollTrace::counted(&[1])), at(0));
        let rest = lanes(&LanePage { offers: offers(125, 1), is_whole: true });
        for lane in &rest {
            pages.note_next(lane, None);
        }
        let part = LanePart::of(&all[7]);
        assert!(pages.note_poll(t(1), Some(&PollTrace::counted_for(&[1], part)), at(1)));
        let read = lanes(&pages.page(offers(125, 1), at(1)));
        let of_part: Vec<Lane> =
            rest.into_iter().filter(|lane| LanePart::of(lane) == part).collect();
        assert!(of_part.len() < 10 && read == of_part, "{read:?}");
    }

    #[test]
    fn lanes_with_due_runs_are_read_in_turn_and_strict_queues_first() {
        let mut pages = LanePages::default();
        let all = || {
            let mut all = offers(250, 1);
            all[249].share = Share::Strict;
            all
        };
        let strict = all()[249].lanes[0].clone();
        let mut read = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let page = pages.page(all(), at(0));
            assert_eq!(lanes(&page)[0], strict);
            read.extend(lanes(&page));
        }
        assert_eq!(read.len(), 250);
        let mut full = offers(250, 1);
        for offer in &mut full {
            offer.slots = 0;
        }
        assert!(pages.page(full, at(0)).offers.is_empty());
        let mut wide = offers(1, 1);
        wide[0].lanes = vec![strict; 300];
        assert_eq!(lanes(&pages.page(wide, at(0))).len(), PAGE);
    }
}
