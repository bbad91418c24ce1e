//! The comparison of the model with the code, on random walks through the model.
//! Each walk is replayed against the real scripts in a real Redis.
//! After every step both must have the same content and have given the same answer.
//!
//! `SCHEDD_MODEL_SEED=N` replays the single walk whose seed a failure named.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};

use super::real::Real;
use super::rules::{Budget, Hosts, Rules};
use super::state::State;
use super::steps::{Step, possible};
use super::taking::take;
use crate::support::cases::cases;

const WALKS: u32 = 300;
const STEPS: usize = 40;

/// The replies that the walks must meet, all together.
const WORDS: [&str; 21] = [
    "Planted",
    "Claimed",
    "Gone",
    "Skipped",
    "Waiting",
    "Cancelled",
    "Held",
    "Stop",
    "Lost",
    "Finished",
    "Retrying",
    "Released",
    "AskingLater",
    "Recovered",
    "Ended",
    "Requested",
    "Retried",
    "Already",
    "Over",
    "Removed",
    "Stale",
];

/// Returns the configuration of a walk: every fault may happen, under some overlap rule and
/// delivery.
fn rules_of(random: &mut fastrand::Rng) -> Rules {
    let overlaps = [Overlap::Skip, Overlap::Queue { max: 1 }, Overlap::Replace, Overlap::Allow];
    let may = Budget {
        crashes: 2,
        expiries: 2,
        losses: 6,
        failures: 2,
        hand_backs: 1,
        unclear: random.u8(0..3),
        cancels: random.u8(0..3),
        retries: random.u8(0..3),
        failovers: random.u8(0..2),
        removals: random.u8(0..3),
    };
    Rules {
        occurrences: 3,
        has_once: true,
        overlap: overlaps[random.usize(0..overlaps.len())],
        delivery: if random.u8(0..3) == 0 { Delivery::AtMostOnce } else { Delivery::AtLeastOnce },
        hosts: if random.bool() { Hosts::Kept } else { Hosts::Frozen },
        broken: None,
        may,
    }
}

/// Makes one walk and returns the replies it met.
async fn walk(real: &mut Real, seed: u64) -> BTreeSet<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let rules = rules_of(&mut random);
    let mut state = State::first(&rules);
    let mut reported = format!("seed {seed}, {rules:?}\n");
    let mut met = BTreeSet::new();
    real.begin(&rules).await;
    for _ in 0..STEPS {
        let steps = possible(&state, &rules);
        if steps.is_empty() {
            break;
        }
        let step = steps[random.usize(0..steps.len())];
        let (next, did) = take(&state, &rules, step);
        writeln!(reported, "{step}").unwrap();
        match step {
            Step::Replicate => real.replicate(),
            Step::FailOver => real.fail_over(&next.redis),
            Step::RunOut { run } | Step::TakeBack { run, .. } => real.watch(&state.redis, run),
            _ => {}
        }
        if let Some((call, reply)) = did {
            let answered = real.call(call, reply, &next.redis).await;
            assert_eq!(
                answered, reply,
                "what the script answered (left), and the model (right):\n{reported}"
            );
            met.insert(format!("{reply:?}").split('(').next().unwrap().to_owned());
        }
        assert_eq!(
            real.held(),
            real.wanted(&next.redis),
            "what Redis holds (left), and the model (right):\n{reported}"
        );
        state = next;
    }
    met
}

#[tokio::test]
async fn the_scripts_do_what_the_model_does_on_random_walks_through_it() {
    let mut real = Real::start();
    if let Ok(seed) = std::env::var("SCHEDD_MODEL_SEED") {
        walk(&mut real, seed.parse().unwrap()).await;
        real.assert_sound();
        return;
    }
    let first = fastrand::u64(0..1_000_000_000);
    let mut met = BTreeSet::new();
    for seed in first..first + u64::from(cases(WALKS)) {
        met.append(&mut walk(&mut real, seed).await);
        // The check makes many commands, so it does not follow every walk.
        if seed % 20 == 0 {
            real.assert_sound();
        }
    }
    let unmet: Vec<&str> = WORDS.into_iter().filter(|word| !met.contains(*word)).collect();
    assert!(unmet.is_empty(), "the walks from seed {first} on met no {unmet:?}");
}
