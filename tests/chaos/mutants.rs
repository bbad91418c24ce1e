//! Broken daemons and what makes each visible. A mutant is a build of schedd that breaks one rule when `SCHEDD_MUTANT` names it;
//! the program is named by `SCHEDD_CHAOS_PROGRAM`. A checker that finds nothing wrong with one proves nothing.

/// A broken rule, and the faults and jobs under which it shows within a short run.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What is broken.
    pub(crate) rule: &'static str,
    /// Names of faults, comma-separated.
    pub(crate) faults: &'static str,
    /// Beginnings of names of jobs, comma-separated; empty = all.
    pub(crate) jobs: &'static str,
}

/// The ones that are known. Any other name is run under all faults and jobs.
pub(crate) const KNOWN: &[Mutant] = &[
    Mutant {
        name: "no-token-check",
        rule: "an end is accepted from whoever tells it",
        faults: "stop-node,blackhole,stall-redis",
        jobs: "long,once-long,quick",
    },
    Mutant {
        name: "remove-before-add",
        rule: "a claim takes the run out before it has a lease",
        faults: "kill-node,full-memory,kill-redis",
        jobs: "",
    },
    Mutant { name: "no-start-mark", rule: "an at-most-once run is tried again", faults: "kill-node", jobs: "once" },
    Mutant { name: "renew-never", rule: "leases are not renewed", faults: "none", jobs: "long,once-long" },
    Mutant {
        name: "successor-at-end",
        rule: "the next run is planted when this one ends",
        faults: "kill-node,kill-all",
        jobs: "long,allowing,once-long,quick",
    },
    Mutant {
        name: "reaper-trusts-clock",
        rule: "a lease is taken over as soon as a clock says it has ended",
        faults: "stop-node,blackhole,stall-redis",
        jobs: "long,once-long,quick",
    },
];

/// What is known of a mutant.
pub(crate) fn hint(name: &str) -> Option<&'static Mutant> {
    KNOWN.iter().find(|mutant| mutant.name == name)
}
