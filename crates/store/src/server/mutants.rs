//! Mutants: rules broken on purpose, one at a time, to prove that the chaos checker detects each.
//! Mutants exist only in a build with the feature `mutants`. Such a build behaves normally unless
//! the variable `SCHEDD_MUTANT` is set.
//!
//! Invariant: a broken script differs from the real script only in the pieces of text that its
//! mutant lists. A piece that does not occur exactly once ends the process. A mutant without effect
//! would make the checker's proof worthless.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::queue::lane::Priority;
use schedd_core::domain::queue::queue_rules::Share;

/// A rule of schedd that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// `finish_run` accepts an end from any node.
    NoTokenCheck,
    /// The report of a worker counts although another worker got the run meanwhile.
    LateReports,
    /// A claim removes its runs from the due set in a separate call, a moment before they get a
    /// lease.
    ZremFirst,
    /// An at-most-once run whose node was lost is executed again.
    NoStartMark,
    /// A node never renews its leases.
    RenewNever,
    /// The successor of a run is added to the due set only when the run succeeds.
    SuccessorAtCompletion,
    /// A lease is taken over as soon as it ended by the node's wall clock, without watching it.
    /// `SCHEDD_MUTANT_SKEW_MS` sets that clock ahead, for hosts whose real clock cannot be set.
    ReaperTrustsClock,
    /// A claim passes a group or `not_while` gate even if other runs have its places.
    GateNeverShut,
    /// The end of a run wakes no run that waits for the place of the ended run.
    NobodyWoken,
    /// Members of an alternating group start in due order and without a gap.
    TurnsForgotten,
    /// Queues have neither a limit nor a rate limit.
    QueueUnbounded,
    /// A node ignores how many runs it already executes.
    SlotsUnbounded,
    /// A node serves all queues alike, and the earliest due run first, whatever its priority.
    OrderForgotten,
    /// A claim starts a run of a removed job with the definition of a later job of the same name.
    FormerBegins,
    /// The end of a run is not written down for the children of its job.
    ChainForgotten,
    /// A child runs however its parents ended.
    ParentsIgnored,
}

impl Mutant {
    /// All mutants, each with the word that selects the mutant in `SCHEDD_MUTANT`.
    pub const ALL: [(&str, Self); 16] = [
        ("no-token-check", Self::NoTokenCheck),
        ("late-reports", Self::LateReports),
        ("zrem-first", Self::ZremFirst),
        ("no-start-mark", Self::NoStartMark),
        ("renew-never", Self::RenewNever),
        ("successor-at-completion", Self::SuccessorAtCompletion),
        ("reaper-trusts-clock", Self::ReaperTrustsClock),
        ("gate-never-shut", Self::GateNeverShut),
        ("nobody-woken", Self::NobodyWoken),
        ("turns-forgotten", Self::TurnsForgotten),
        ("queue-unbounded", Self::QueueUnbounded),
        ("slots-unbounded", Self::SlotsUnbounded),
        ("order-forgotten", Self::OrderForgotten),
        ("former-begins", Self::FormerBegins),
        ("chain-forgotten", Self::ChainForgotten),
        ("parents-ignored", Self::ParentsIgnored),
    ];

    /// Returns the changes of this mutant: script name, piece of text, and replacement.
    pub(super) fn pieces(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::NoTokenCheck => &[
                (
                    "finish_run",
                    "if not redis.call('ZSCORE', k.leases, member) then",
                    "if false then",
                ),
                ("finish_run", "if whole(run[1], FENCE) > tonumber(fence) then", "if false then"),
                ("finish_run", "if ENDS[run[7]] then", "if false then"),
            ],
            Self::SuccessorAtCompletion => &[
                // `claim_runs` claims all runs.
                ("claim_plain_runs", "if most <= 0 or", "if true or"),
                (
                    "claim_runs",
                    "if is_pending then\n    plant_pending(",
                    "if is_pending then\n    (function(k, _, id, due_ms, ready)
                      redis.call('HSET', k.run, 'next', id, 'next_due', due_ms, 'next_ready', ready)
                    end)(",
                ),
                (
                    "finish_run",
                    "end_run(k, id, verdict,",
                    "local next_run = redis.call('HMGET', k.run, 'next', 'next_due', 'next_ready')
                    if verdict == 'succeeded' and next_run[1] then
                      plant_pending(k, job_name, next_run[1], next_run[2], next_run[3])
                      redis.call('HDEL', k.run, 'next')
                    end
                    end_run(k, id, verdict,",
                ),
            ],
            Self::GateNeverShut => &[
                ("claim_runs", "if holder then return false end", ""),
                (
                    "claim_runs",
                    "if holder and (defined_job(holder) == gate.of) ~= (defined_job(job) == gate.of) then return false end",
                    "",
                ),
            ],
            Self::NobodyWoken => {
                &[("finish_run", "set_gate_timer(k.gates.timers, gate, now)", "do end")]
            }
            Self::TurnsForgotten => &[
                (
                    "claim_runs",
                    "local rules = {gap = whole(set[3], PARKED),",
                    "local rules = {gap = 0,",
                ),
                ("claim_runs", "if set[1] == 'alternate' then", "if false then"),
                (
                    "open_gate",
                    "local rules = {gap = whole(set[3], PARKED),",
                    "local rules = {gap = 0,",
                ),
                ("open_gate", "if set[1] == 'alternate' then", "if false then"),
            ],
            Self::QueueUnbounded => &[
                ("claim_runs", "local limit = whole(set[2], POOL)", "local limit = 0"),
                ("claim_runs", "if count == 0 or per == 0 then", "if true then"),
                ("claim_plain_runs", "local limit = whole(set[2], POOL)", "local limit = 0"),
                ("claim_plain_runs", "if count == 0 or per == 0 then", "if true then"),
                ("list_due", "local limit = whole(set[2], POOL)", "local limit = 0"),
                ("list_due", "if count == 0 or per == 0 then", "if true then"),
            ],
            Self::FormerBegins => &[("claim_runs", "if is_of_former then", "if false then")],
            Self::ChainForgotten => &[(
                "finish_run",
                "redis.call('ZADD', k.chain_ends, now, cjson.encode(ended))",
                "do end",
            )],
            Self::ParentsIgnored => &[(
                "plant_child",
                "local may_run = rule == 'after_finished'",
                "local may_run = true",
            )],
            Self::LateReports
            | Self::ZremFirst
            | Self::NoStartMark
            | Self::RenewNever
            | Self::ReaperTrustsClock
            | Self::SlotsUnbounded
            | Self::OrderForgotten => &[],
        }
    }

    /// Returns the text of a script with this mutant's changes.
    pub(super) fn broken(self, name: &str, text: String) -> String {
        let pieces = self.pieces().iter().filter(|(script, ..)| *script == name);
        pieces.fold(text, |text, (_, piece, instead)| {
            let found = text.matches(piece).count();
            assert!(
                found == 1,
                "{self:?} does not apply: {name}.lua has {piece:?} {found} times, wanted once"
            );
            text.replacen(piece, instead, 1)
        })
    }
}

/// Returns the mutant named by `SCHEDD_MUTANT`; None if the variable is not set. The error contains
/// the word found and the words wanted.
pub fn from_environment() -> Result<Option<Mutant>, String> {
    let Ok(word) = std::env::var("SCHEDD_MUTANT") else { return Ok(None) };
    let known = Mutant::ALL.into_iter().find(|(known, _)| *known == word);
    known.map(|(_, mutant)| Some(mutant)).ok_or_else(|| {
        let words = Mutant::ALL.map(|(known, _)| known).join(", ");
        format!("SCHEDD_MUTANT is {word:?}, which is not a mutant; wanted one of {words}")
    })
}

/// Returns true if `SCHEDD_MUTANT` selects `mutant` in this process.
pub fn is(mutant: Mutant) -> bool {
    static CHOSEN: LazyLock<Option<Mutant>> = LazyLock::new(|| from_environment().ok().flatten());
    *CHOSEN == Some(mutant)
}

/// Returns the text of a script to load, with the changes of the active mutant.
pub(crate) fn loaded(name: &str, text: String) -> String {
    let chosen = Mutant::ALL.into_iter().map(|(_, mutant)| mutant).find(|mutant| is(*mutant));
    match chosen {
        Some(mutant) => mutant.broken(name, text),
        None => text,
    }
}

/// Returns the delivery rule under which a node recovers a run: `delivery` unless the mutant
/// `no-start-mark` is active. With that mutant, returns at-least-once for any known rule.
pub fn reaped_as(delivery: Option<Delivery>) -> Option<Delivery> {
    if is(Mutant::NoStartMark) { delivery.map(|_| Delivery::AtLeastOnce) } else { delivery }
}

/// Returns the share that a node gives to a queue: `share`. With the mutant `order-forgotten`,
/// returns the same share for all queues.
pub fn share(share: Share) -> Share {
    if is(Mutant::OrderForgotten) { Share::Weight(1) } else { share }
}

/// Returns the priority by which a node orders a run: `priority`. With the mutant
/// `order-forgotten`, returns the same priority for all runs.
pub fn priority(priority: Priority) -> Priority {
    if is(Mutant::OrderForgotten) { Priority::default() } else { priority }
}

/// Returns `unchanged`, the time for which a node has seen a lease unchanged. With the mutant
/// `reaper-trusts-clock`, judges only by the wall clock and `end`, the end of the lease in Unix ms.
/// Then returns the maximum if the clock has passed `end`, or else zero.
pub fn watched(end: &str, unchanged: Duration) -> Duration {
    if !is(Mutant::ReaperTrustsClock) {
        return unchanged;
    }
    let skew =
        std::env::var("SCHEDD_MUTANT_SKEW_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_add(Duration::from_millis(skew));
    let is_past = end.parse::<u64>().is_ok_and(|end| Duration::from_millis(end) < wall);
    if is_past { Duration::MAX } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "does not apply")]
    fn a_piece_that_is_not_there_is_reported() {
        Mutant::NoTokenCheck.broken("finish_run", "return 1".to_owned());
    }
}
