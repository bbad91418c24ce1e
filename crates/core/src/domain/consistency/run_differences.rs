//! The findings about one run, and the changes that repair its index entries. Both come from one
//! comparison of the run's record with the indexes.

use std::collections::BTreeMap;

use super::inconsistency::{FindingKind, FindingSubject, Inconsistency, Mend, READY_TIME};
use super::run_places::{PlaceChange, PlacedRun, RecordFacts, RunPlace};
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::Fence;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The changes after which the indexes agree with the record of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunRepair {
    /// The indexes to change, each with the new score of the run: a Unix time in ms, or `now`. An
    /// empty text removes the run from the index.
    pub wanted: BTreeMap<RunPlace, String>,
    /// The change at the gates of the run, as a word for the repair script. `left` removes the
    /// places of the run. `unqueued` removes only its entries as a waiter. Empty for no change.
    pub gate_step: &'static str,
    /// The new ready time, if the ready time in the due set is later than the job's rules allow.
    pub ready: Option<UnixMillis>,
    /// The changes in words, as `doctor --fix` prints them.
    pub words: Vec<String>,
}

impl PlacedRun {
    /// Returns the changes that `doctor --fix` may make. Changes that need a decision of an
    /// operator are left out.
    pub fn repair(&self) -> RunRepair {
        let mut repair = RunRepair::default();
        for (place, change) in self.differences().filter(|(place, _)| self.special(place).is_none())
        {
            let key = place.key(&self.run);
            let (score, word) = match change {
                PlaceChange::Put(Some(at)) => (at.as_i64().to_string(), format!("put into {key}")),
                PlaceChange::Put(None) => ("now".to_owned(), format!("put into {key}")),
                PlaceChange::TakeOut => (String::new(), format!("taken out of {key}")),
            };
            repair.words.push(word);
            repair.wanted.insert(place.clone(), score);
        }
        if let (Some(by), Some(lane)) = (self.late_by(), self.due_in().next()) {
            repair.ready = Some(by);
            repair.words.push(format!("ready at {by}"));
            let spread = self.is_in(&RunPlace::Spread).then_some(RunPlace::Spread);
            for place in std::iter::once(RunPlace::Due(lane.clone())).chain(spread) {
                repair.wanted.insert(place, by.as_i64().to_string());
            }
        }
        let has_ended = self.state().is_some_and(RunState::is_final);
        let waits_behind = self.is_in(&RunPlace::Waiting) && !self.is_queued();
        // A run that has ended, or that waits for an open run of its job, needs no place at a gate.
        repair.gate_step =
            match repair.wanted.keys().any(|place| matches!(place, RunPlace::Queued(_))) {
                _ if !self.gates.is_empty() && (has_ended || waits_behind) => "left",
                true => "unqueued",
                false => "",
            };
        repair
    }

    /// Returns the index entries that a repair moves to quarantine, each with its score. These are
    /// entries of a run without a record.
    pub fn to_quarantine(&self) -> impl Iterator<Item = (&RunPlace, &String)> {
        let stray = self
            .differences()
            .filter(|(place, _)| matches!(self.special(place), Some(Mend::Fix(_))));
        stray.filter_map(|(place, _)| Some((place, self.places.get(place)?.as_ref()?)))
    }

    /// Returns the repair of a wrong or missing entry in `place`, if it is not enough to add or
    /// remove the entry. Returns `None` if that is enough.
    fn special(&self, place: &RunPlace) -> Option<Mend> {
        let run = &self.run;
        match (place, self.state()) {
            (RunPlace::Lease(_), None) => {
                Some(Mend::Fix("moves the lease to quarantine when the lease has ended"))
            }
            (RunPlace::Due(_), None) if !self.is_job_known => {
                Some(Mend::Fix("moves the entry to quarantine"))
            }
            (RunPlace::Due(_), None) if !self.is_pending => {
                Some(Mend::Hand(format!("remove the run: schedctl cancel {run}")))
            }
            (RunPlace::Due(_), Some(RunState::Scheduled))
                if !self.is_job_known && self.due_in().next().is_none() =>
            {
                Some(Mend::Hand(format!(
                    "define the job of the run again, or move the record to quarantine: schedctl doctor --set-aside {run}"
                )))
            }
            _ => None,
        }
    }

    /// Returns the fact that decides which indexes must name the run, as a clause such as
    /// `the run has no record`.
    fn condition(&self) -> String {
        match &self.record {
            RecordFacts::None if !self.is_job_known => {
                "the run and its job have no record".to_owned()
            }
            RecordFacts::None => "the run has no record".to_owned(),
            RecordFacts::Unreadable(why) => why.clone(),
            RecordFacts::Known { state, .. } => format!("the state of the run is {state}"),
        }
    }

    /// Returns the fence of a lease of the run if the run's record has another fence. Returns
    /// `None` if there is no such lease.
    fn stray(&self) -> Option<Fence> {
        self.places.iter().find_map(|(place, score)| match place {
            RunPlace::Lease(fence) if score.is_some() && Some(*fence) != self.fence() => {
                Some(*fence)
            }
            _ => None,
        })
    }
}

/// Returns a finding for each difference between the record of one run and the indexes.
pub fn judge_run(facts: &PlacedRun) -> Vec<Inconsistency> {
    let run = &facts.run;
    let subject = || FindingSubject::Run(run.clone(), facts.stray());
    if let RecordFacts::Unreadable(why) = &facts.record {
        let advice = format!(
            "move the record to quarantine: schedctl doctor --set-aside {run}; the next doctor --fix repairs the index entries of the run"
        );
        return vec![
            Inconsistency::unreadable(subject(), "run", why, "the record of a run").by_hand(advice),
        ];
    }
    let mut found: Vec<Inconsistency> = Vec::new();
    for (place, change) in facts.differences() {
        let (family, key) = (place.family(run), place.key(run));
        let finding = match change {
            PlaceChange::Put(Some(at)) => Inconsistency::missing(
                subject(),
                family,
                format!("{key} with the time {at}"),
                facts.condition(),
            ),
            PlaceChange::Put(None) => {
                Inconsistency::missing(subject(), family, key, facts.condition())
            }
            PlaceChange::TakeOut => Inconsistency::extra(subject(), family, key, facts.condition()),
        };
        found.push(Inconsistency { mend: facts.special(place).unwrap_or(finding.mend), ..finding });
    }
    let has_lease = |place: &RunPlace| matches!(place, RunPlace::Lease(_)) && facts.is_in(place);
    if facts.state() == Some(RunState::Running)
        && facts.fence().is_none()
        && !facts.places.keys().any(has_lease)
    {
        let text = "has the state running, but no fence and no lease";
        let advice = format!("move the record to quarantine: schedctl doctor --set-aside {run}");
        found.push(
            Inconsistency::new(FindingKind::Missing, subject(), "leases", text).by_hand(advice),
        );
    }
    if let Some(latest) = facts.late_by() {
        let ready = facts.ready().map_or_else(String::new, |ready| ready.to_string());
        let text = format!(
            "has the ready time {ready}, but the rules of its job allow no ready time after {latest}"
        );
        found.push(Inconsistency::wrong(subject(), READY_TIME, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::lane::Lane;

    fn facts(state: Option<RunState>, there: &[RunPlace]) -> PlacedRun {
        let lane = Lane::default_lane();
        let mut places: BTreeMap<RunPlace, Option<String>> = [
            RunPlace::Lease(Fence::new(7).unwrap()),
            RunPlace::Due(lane.clone()),
            RunPlace::Running(lane.queue().clone()),
            RunPlace::Open,
            RunPlace::Waiting,
            RunPlace::Spread,
            RunPlace::Stops,
            RunPlace::History,
            RunPlace::Dead,
            RunPlace::EndDeadline,
        ]
        .into_iter()
        .map(|place| (place, None))
        .collect();
        places.extend(there.iter().map(|place| (place.clone(), Some("5".to_owned()))));
        PlacedRun {
            run: "a@5".parse().unwrap(),
            record: state.map_or(RecordFacts::None, |state| RecordFacts::Known {
                state,
                fence: Fence::new(7),
            }),
            lane: Some(lane.clone()),
            gates: Vec::new(),
            ended_at: None,
            is_job_known: true,
            job_lane: Some(lane),
            is_pending: false,
            is_paused_run: false,
            is_first_behind: false,
            places,
            ready_by: None,
            seen: Vec::new(),
        }
    }

    fn codes(facts: &PlacedRun) -> Vec<String> {
        judge_run(facts).iter().map(Inconsistency::code).collect()
    }

    #[test]
    fn each_state_needs_its_places_and_forbids_the_rest() {
        let all: Vec<RunPlace> = facts(None, &[]).places.into_keys().collect();
        for (state, missing, extra) in [
            (None, "", "leases due running waiting catch_up history dead deadlines"),
            (Some(RunState::Scheduled), "due", "leases running waiting history dead"),
            (Some(RunState::Running), "leases running open", "due waiting catch_up history dead"),
            (
                Some(RunState::Succeeded),
                "history",
                "leases due running open waiting catch_up stop_requests dead deadlines",
            ),
            (
                Some(RunState::Lost),
                "dead",
                "leases due running open waiting catch_up stop_requests deadlines",
            ),
        ] {
            let named = |kind: &str, places: &str| {
                places.split_whitespace().map(|it| format!("{kind}:{it}")).collect::<Vec<_>>()
            };
            assert_eq!(
                codes(&facts(state, &[])),
                named("missing", missing),
                "{state:?} in no place"
            );
            assert_eq!(
                codes(&facts(state, &all)),
                named("extra", extra),
                "{state:?} in all places"
            );
        }
    }

    #[test]
    fn an_unreadable_record_allows_every_place_and_repairs_none() {
        let all: Vec<RunPlace> = facts(None, &[]).places.into_keys().collect();
        let unreadable =
            PlacedRun { record: RecordFacts::Unreadable("no".to_owned()), ..facts(None, &all) };
        assert_eq!(codes(&unreadable), ["unreadable:run"]);
        assert_eq!(unreadable.repair(), RunRepair::default());
        assert_eq!(unreadable.to_quarantine().count(), 0);
    }

    #[test]
    fn a_later_lease_leaves_the_run_to_its_holder_and_an_earlier_one_is_extra() {
        let at = |fence| RunPlace::Lease(Fence::new(fence).unwrap());
        let queue = RunPlace::Running(Lane::default_lane().queue().clone());
        assert_eq!(
            codes(&facts(Some(RunState::Running), &[at(9), RunPlace::Open])),
            [] as [String; 0]
        );
        let earlier = facts(Some(RunState::Running), &[at(3), at(7), RunPlace::Open, queue]);
        assert_eq!(codes(&earlier), ["extra:leases"]);
        assert_eq!(earlier.repair().wanted, BTreeMap::from([(at(3), String::new())]));
    }
}
