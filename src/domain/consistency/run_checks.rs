//! The rules of one run: its record must agree with all indexes.

use super::inconsistency::{ConsistencyRule, FindingSubject, Inconsistency};
use super::placements::{CountedIn, PlacedRun, Placement, RecordFacts};
use crate::domain::name::names::Fence;
use crate::domain::run::run_state::RunState;

/// Returns a finding for each disagreement between the record of one run and the indexes.
pub fn judge_run(facts: &PlacedRun) -> Vec<Inconsistency> {
    let mut book = Book { facts, findings: Vec::new() };
    match &facts.record {
        RecordFacts::Unreadable(why) => {
            let advice = format!(
                "move it aside with schedctl doctor --set-aside {}; the next check repairs what else names the run",
                facts.run
            );
            let subject = book.subject();
            book.findings.push(Inconsistency::by_hand(
                ConsistencyRule::Record,
                subject,
                why,
                "a record that can be read",
                advice,
            ));
        }
        RecordFacts::None => book.without_record(),
        RecordFacts::Known { state: RunState::Running, fence } => book.running(*fence),
        RecordFacts::Known { state: RunState::Scheduled, .. } => book.scheduled(),
        RecordFacts::Known { state, .. } => book.over(*state),
    }
    book.counted();
    book.watched();
    book.findings
}

struct Book<'a> {
    facts: &'a PlacedRun,
    findings: Vec<Inconsistency>,
}

impl Book<'_> {
    fn subject(&self) -> FindingSubject {
        FindingSubject::Run(self.facts.run.clone(), self.facts.stray)
    }

    fn fixed(&mut self, rule: ConsistencyRule, found: impl Into<String>, wanted: &'static str, fix: &'static str) {
        self.findings.push(Inconsistency::fixed(rule, self.subject(), found, wanted, fix));
    }

    fn counted(&mut self) {
        let CountedIn { in_own, elsewhere } = self.facts.counted;
        let executes = matches!(self.facts.record, RecordFacts::Known { state: RunState::Running, .. });
        let wanted = "a queue counts exactly its running runs";
        if executes && self.facts.is_leased && in_own == Some(false) {
            self.fixed(ConsistencyRule::RunningWrong, "it executes and is not counted in its queue", wanted, "counts it there");
        }
        if elsewhere > 0 || !executes && in_own == Some(true) {
            let found = "a queue counts it as running, and it does not run there";
            self.fixed(ConsistencyRule::RunningWrong, found, wanted, "stops counting it there");
        }
    }

    fn watched(&mut self) {
        let facts = self.facts;
        let is_to_come = match &facts.record {
            RecordFacts::None => facts.is_pending || facts.watched.is_held,
            RecordFacts::Known { state, .. } => !state.is_final(),
            RecordFacts::Unreadable(_) => true,
        };
        if !is_to_come && (facts.watched.finish || facts.watched.start && !facts.watched.is_first_behind) {
            self.fixed(
                ConsistencyRule::DeadlineWrong,
                "it is over or no longer planned, and it has a deadline to start or end",
                "deadlines of planned or open runs only",
                "removes the deadline",
            );
        }
    }

    fn without_record(&mut self) {
        let facts = self.facts;
        if facts.stray.is_some() {
            self.fixed(
                ConsistencyRule::StrayLease,
                "it has a lease and no record",
                "a record with each lease",
                "quarantines the lease once it has ended",
            );
        }
        if facts.due_sets > 0 && facts.job == Placement::Unknown {
            self.fixed(
                ConsistencyRule::DueUnknown,
                "it is due, and its job is not known",
                "due runs of known jobs",
                "moves it to quarantine",
            );
        } else if facts.due_sets > 0 && !facts.is_pending {
            let advice = format!("schedctl cancel {} takes it out", facts.run);
            let found = "it is in a due set, but has no record and is not the planned run of its job";
            let subject = self.subject();
            self.findings.push(Inconsistency::by_hand(
                ConsistencyRule::DueUnknown,
                subject,
                found,
                "due runs that were planned",
                advice,
            ));
        } else if facts.due_sets > 1 {
            self.due_twice();
        }
        if facts.is_open && facts.stray.is_none() {
            self.fixed(
                ConsistencyRule::OpenWrong,
                "it is open and has no record",
                "open runs that execute or are tried again",
                "closes it and lets the next that waits run",
            );
        }
        if facts.is_waiting {
            self.fixed(
                ConsistencyRule::WaitingWrong,
                "it waits and has no record",
                "waiting runs that are to run",
                "takes it out",
            );
        }
        if facts.is_spread {
            self.fixed(
                ConsistencyRule::SpreadWrong,
                "it is in the list of spread runs and has no record",
                "spread runs that are due",
                "takes it off that list",
            );
        }
        if facts.is_stopped && facts.due_sets == 0 && facts.stray.is_none() {
            self.fixed(
                ConsistencyRule::StopWrong,
                "it is asked to stop, and there is no such run",
                "requests to stop only for runs that are not over",
                "removes the request",
            );
        }
        if facts.history.contains(&true) {
            self.fixed(
                ConsistencyRule::HistoryWrong,
                "history names it, and it has no record",
                "history of runs that are kept",
                "takes it out of history",
            );
        }
        if facts.dead.contains(&true) {
            self.fixed(
                ConsistencyRule::DeadWrong,
                "it stands among the dead letters and has no record",
                "dead letters that are kept",
                "takes it out of that list",
            );
        }
    }

    fn running(&mut self, fence: Option<Fence>) {
        let facts = self.facts;
        match (facts.is_leased, facts.stray, fence) {
            (_, Some(stray), Some(fence)) if stray < fence => {
                self.fixed(
                    ConsistencyRule::StrayLease,
                    "it has a lease of an earlier claim",
                    "one lease, under its last fence",
                    "takes that lease out",
                );
                if !facts.is_leased {
                    self.no_lease();
                }
            }
            // The holder of the later lease ends the run, or the run is taken back when that lease
            // has ended.
            (true, None, _) | (_, Some(_), _) => {}
            (false, None, Some(_)) => self.no_lease(),
            (false, None, None) => {
                let found = "its record says that it executes, but it has neither a fence nor a lease";
                let advice = format!("move the record aside with schedctl doctor --set-aside {}", facts.run);
                let subject = self.subject();
                self.findings.push(Inconsistency::by_hand(
                    ConsistencyRule::NoLease,
                    subject,
                    found,
                    "a lease of each run that executes",
                    advice,
                ));
            }
        }
        if !facts.is_open {
            self.fixed(ConsistencyRule::OpenWrong, "it executes and is not open", "open runs that execute", "opens it");
        }
        self.not_due("it executes and is due");
        self.not_waiting("it executes and waits");
        self.not_over();
    }

    fn no_lease(&mut self) {
        self.fixed(
            ConsistencyRule::NoLease,
            "its record says that it executes, but it has no lease",
            "a lease of each run that executes",
            "puts back an ended lease, so that it is taken back by its delivery rules",
        );
    }

    fn scheduled(&mut self) {
        let facts = self.facts;
        if facts.due_sets == 0 && !facts.is_waiting {
            if facts.job == Placement::Unknown {
                let found = "it is scheduled, neither due nor waiting, and its job is not known";
                let advice =
                    format!("define the job again, or move the record aside with schedctl doctor --set-aside {}", facts.run);
                let subject = self.subject();
                self.findings.push(Inconsistency::by_hand(
                    ConsistencyRule::Nowhere,
                    subject,
                    found,
                    "planned runs that are due or wait",
                    advice,
                ));
            } else {
                self.fixed(
                    ConsistencyRule::Nowhere,
                    "it is scheduled, and neither due nor waiting",
                    "planned runs that are due or wait",
                    "makes it due now",
                );
            }
        } else if facts.due_sets > 0 && facts.is_waiting {
            self.fixed(ConsistencyRule::WaitingWrong, "it waits and is due", "one of both", "lets it run");
        } else if facts.due_sets > 1 {
            self.due_twice();
        } else if let (Some(ready), Some(by)) = (facts.ready, facts.ready_by) {
            let found = format!("it may start at {ready}, and its job's rules allow a delay until {by} at most");
            self.fixed(
                ConsistencyRule::ReadyFar,
                found,
                "no longer delay than the job's rules allow",
                "moves its start to that time",
            );
        }
        if facts.is_leased || facts.stray.is_some() {
            self.fixed(
                ConsistencyRule::StrayLease,
                "it has a lease and does not execute",
                "leases of runs that execute",
                "takes the lease out",
            );
        }
        if facts.run.is_manual() && !facts.is_open {
            let found = "it is to run, and is not on its job's list of manual runs";
            self.fixed(ConsistencyRule::OpenWrong, found, "all manual runs that are not over on that list", "puts it there");
        }
        if facts.is_spread && facts.due_sets == 0 {
            self.fixed(
                ConsistencyRule::SpreadWrong,
                "it is in the list of spread runs and in no due set",
                "spread runs that are due",
                "takes it off that list",
            );
        }
        self.not_over();
    }

    fn over(&mut self, state: RunState) {
        let facts = self.facts;
        if facts.is_leased || facts.stray.is_some() {
            self.fixed(
                ConsistencyRule::StrayLease,
                format!("it is {state} and has a lease"),
                "leases of runs that execute",
                "takes the lease out",
            );
        }
        if facts.is_open {
            self.fixed(
                ConsistencyRule::OpenWrong,
                format!("it is {state} and open"),
                "open runs that execute or are tried again",
                "closes it and lets the next that waits run",
            );
        }
        self.not_due(&format!("it is {state} and due"));
        self.not_waiting(&format!("it is {state} and waits"));
        if facts.is_spread {
            self.fixed(
                ConsistencyRule::SpreadWrong,
                format!("it is {state}, and still on the list of spread runs"),
                "spread runs that are due",
                "takes it off that list",
            );
        }
        if facts.is_stopped {
            self.fixed(
                ConsistencyRule::StopWrong,
                format!("it is {state} and asked to stop"),
                "requests to stop only for runs that are not over",
                "removes the request",
            );
        }
        if state.is_dead() {
            if facts.dead.contains(&false) {
                self.fixed(
                    ConsistencyRule::DeadWrong,
                    format!("it is {state} and not among the dead letters"),
                    "all dead letters in their lists",
                    "puts it there",
                );
            }
        } else {
            if facts.dead.contains(&true) {
                self.fixed(
                    ConsistencyRule::DeadWrong,
                    format!("it is {state} and among the dead letters"),
                    "dead letters only in their lists",
                    "takes it out",
                );
            }
            if facts.history.contains(&false) {
                self.fixed(
                    ConsistencyRule::HistoryWrong,
                    format!("it is {state} and history does not name it"),
                    "each run that is over in history",
                    "puts it there",
                );
            }
        }
    }

    fn due_twice(&mut self) {
        self.fixed(
            ConsistencyRule::DueTwice,
            "it is due in several queues",
            "one due set for a run",
            "leaves it in the queue of its job",
        );
    }

    fn not_due(&mut self, found: &str) {
        if self.facts.due_sets > 0 {
            self.fixed(ConsistencyRule::DueWrong, found, "due runs that are to run", "takes it out of the due set");
        }
    }

    fn not_waiting(&mut self, found: &str) {
        if self.facts.is_waiting {
            self.fixed(ConsistencyRule::WaitingWrong, found, "waiting runs that are to run", "takes it out");
        }
    }

    fn not_over(&mut self) {
        if self.facts.history.contains(&true) {
            self.fixed(
                ConsistencyRule::HistoryWrong,
                "it is not over and stands in history",
                "history of runs that are over",
                "takes it out of history",
            );
        }
        if self.facts.dead.contains(&true) {
            self.fixed(
                ConsistencyRule::DeadWrong,
                "it is not over and stands among the dead letters",
                "dead letters only in their lists",
                "takes it out",
            );
        }
    }
}
