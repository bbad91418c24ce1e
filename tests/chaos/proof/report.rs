//! The output: the fault log, the counts, each finding, the table of verdicts and the last line.

use std::collections::{BTreeMap, BTreeSet};

use crate::checker;
use crate::checker::{Finding, Verdict};
use crate::evidence::{Evidence, Excuse, Micros, Reach, Recorded, span};
use crate::faults::needs::NOT_MADE;
use crate::worker::Crew;

/// The number of findings of one verdict that are shown in full; the rest are only counted.
const SHOWN: usize = 5;

/// Prints everything but the last line.
pub(crate) fn print(evidence: &Evidence, findings: &[Finding], begun: Micros) {
    println!("\n-- faults, in seconds from the start");
    for fault in &evidence.faults {
        println!(
            "{:>8.3} {:>8.3}  {:<4} {}",
            span(fault.from - begun),
            span(fault.to - begun),
            fault.row,
            fault.what
        );
    }
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for recorded in &evidence.history {
        *states.entry(&recorded.state).or_default() += 1;
    }
    let requests =
        evidence.attempts.iter().filter(|attempt| attempt.reach != Reach::Process).count();
    let cut = evidence.attempts.iter().filter(|attempt| attempt.ended.is_none()).count();
    let again = evidence.attempts.iter().filter(|attempt| attempt.number > 1).count();
    println!("\n-- what was done");
    println!(
        "jobs {}, runs in history {}: {states:?}",
        evidence.jobs.len(),
        evidence.history.len()
    );
    println!(
        "attempts {} ({requests} by HTTP), cut short {cut}, second or later {again}",
        evidence.attempts.len()
    );
    let shares = |job: &str| {
        evidence.jobs.get(job).is_some_and(|job| !job.sharing.things(&job.name).is_empty())
    };
    let of_shared: Vec<_> = evidence.history.iter().filter(|run| shares(&run.run.job)).collect();
    let waited = of_shared.iter().filter(|run| run.waited_from.is_some()).count();
    println!("runs that share something {}, of which waited at a gate {waited}", of_shared.len());
    let is_instance =
        |job: &str| evidence.jobs.get(job).is_some_and(|job| job.only_node().is_some());
    let of_each = evidence.history.iter().filter(|run| is_instance(&run.run.job));
    let second = evidence.attempts.iter().filter(|attempt| attempt.number == 2);
    println!(
        "runs of jobs on each node {}, of which begun again {}",
        of_each.count(),
        second.filter(|attempt| is_instance(&attempt.run.job)).count()
    );
    let readded: usize =
        evidence.generations.values().map(|of_name| of_name.len().saturating_sub(1)).sum();
    let of_readded = |job: &str| evidence.generations.contains_key(job);
    let reported = evidence.attempts.iter().filter(|attempt| of_readded(&attempt.run.job)).count();
    let given_up = evidence
        .history
        .iter()
        .filter(|run| of_readded(&run.run.job) && run.state == "cancelled")
        .count();
    println!(
        "jobs removed and added again {readded} times: attempts {reported}, runs that ended with their job {given_up}"
    );
    if let Some(small) = &evidence.small {
        let there = evidence.attempts.iter().filter(|attempt| attempt.node == *small).count();
        println!(
            "attempts on the small node {there}; runs judged in the order it took them {}",
            checker::judged_in_order(evidence)
        );
    }
    let of = |crew: Crew| evidence.attempts.iter().filter(move |at| crew.has(&at.node)).count();
    println!(
        "attempts of workers {}, of apps {}; ends that they reported too late, and that were refused {}; handlers \
         stopped without a lease {}",
        of(Crew::Pulling),
        of(Crew::Apps),
        evidence.late_reports,
        evidence.stopped_handlers
    );
    if evidence.shards > 0 {
        let at_home = evidence.history.iter().filter(|run| run.shard.is_none()).count();
        println!("runs in the namespace itself {at_home}, on each shard {:?}", of_shards(evidence));
    }
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for fault in &evidence.faults {
        *rows.entry(&fault.row).or_default() += 1;
    }
    println!("faults {}: {rows:?}", evidence.faults.len());
    for row in NOT_MADE {
        println!("{row}");
    }
    if evidence.faults.iter().any(|fault| matches!(fault.excuse, Some(Excuse::Forgot(_)))) {
        println!(
            "one-shots accepted, and lost with Redis' last bytes: {}",
            checker::forgotten(evidence)
        );
    }
    let mut late: Vec<Micros> = evidence
        .attempts
        .iter()
        .filter(|attempt| attempt.number == 1)
        .map(|attempt| attempt.began - attempt.run.due)
        .collect();
    late.sort_unstable();
    if let Some(most) = late.last() {
        let at = |share: usize| span(late[(late.len() - 1) * share / 100]);
        println!(
            "first attempts after due, s: p50 {:.3}, p90 {:.3}, p99 {:.3}, most {:.3}",
            at(50),
            at(90),
            at(99),
            span(*most)
        );
    }
    let worst = evidence.host_lags.iter().map(|(_, lag)| *lag).max().unwrap_or(0);
    println!(
        "the host itself was slow {} times, at worst by {:.3} s",
        evidence.host_lags.len(),
        span(worst)
    );
    for verdict in Verdict::ALL {
        let those: Vec<&Finding> =
            findings.iter().filter(|finding| finding.verdict == verdict).collect();
        for finding in those.iter().take(SHOWN) {
            println!("\n{}", finding.shown(evidence, begun).trim_end());
        }
        if those.len() > SHOWN {
            println!("\n... and {} more of {verdict}", those.len() - SHOWN);
        }
    }
    println!("\n-- verdicts");
    for verdict in Verdict::ALL {
        println!(
            "{verdict:<8} {:>5}",
            findings.iter().filter(|finding| finding.verdict == verdict).count()
        );
    }
}

/// Returns the number of runs of each shard that were attempted.
pub(crate) fn of_shards(evidence: &Evidence) -> Vec<usize> {
    let begun: BTreeSet<&str> =
        evidence.attempts.iter().map(|attempt| attempt.run.id.as_str()).collect();
    let of_shard = |shard| {
        let is_there = |run: &&Recorded| run.shard == Some(shard) && begun.contains(&*run.run.id);
        evidence.history.iter().filter(is_there).count()
    };
    (0..evidence.shards).map(of_shard).collect()
}

/// Returns the verdicts that were raised, each with its count, in one line.
pub(crate) fn raised(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let raised: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|verdict| count(*verdict) > 0)
        .map(|verdict| format!("{verdict}={}", count(verdict)))
        .collect();
    raised.join(" ")
}
