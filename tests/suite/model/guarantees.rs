//! The promises, checked in every reachable state. A promise that needs a condition breaks without
//! it.

use std::time::Instant;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};

use super::properties::Property;
use super::rules::{Budget, Hosts, Rules};
use super::search::{Violation, explore};

const QUEUE: Overlap = Overlap::Queue { max: 1 };
const NONE: Budget = Rules::CALM.may;

/// Visits all states. Fails with the trace if a promise is broken, or if there are at most `floor`
/// states.
#[track_caller]
fn assert_holds(what: &str, rules: Rules, properties: &[Property], floor: usize) {
    let start = Instant::now();
    match explore(&rules, properties) {
        Ok(explored) => {
            println!(
                "{what}: {} states, {} steps, {:.1} s",
                explored.states,
                explored.steps,
                start.elapsed().as_secs_f32()
            );
            assert!(
                explored.states > floor,
                "{what}: only {} states: the model has become trivial",
                explored.states
            );
        }
        Err(Violation { property, trace }) => panic!("{what}: {property:?} is broken:\n{trace}"),
    }
}

/// Fails unless the search finds a way to break the promise, and prints that way.
#[track_caller]
pub(super) fn assert_breaks(what: &str, rules: Rules, property: Property) {
    match explore(&rules, &[property]) {
        Ok(explored) => panic!("{what}: {property:?} holds in all {} states", explored.states),
        Err(violation) => {
            assert_eq!(violation.property, property);
            assert!(!violation.trace.is_empty(), "{what}: no way to it is known");
            println!("{what} breaks {property:?}:\n{}", violation.trace);
        }
    }
}

/// Returns all promises except these.
fn all_but(left_out: &[Property]) -> Vec<Property> {
    Property::ALL.into_iter().filter(|property| !left_out.contains(property)).collect()
}

#[test]
fn every_promise_holds_through_a_crash_an_expiry_and_a_lost_answer_at_any_step() {
    let may = Budget { crashes: 1, expiries: 1, losses: 1, ..NONE };
    assert_holds("two occurrences", Rules { may, ..Rules::CALM }, &Property::ALL, 50_000);
}

#[test]
fn one_run_keeps_every_promise_through_two_crashes_or_losses_and_an_expiry() {
    for may in
        [Budget { crashes: 2, expiries: 1, ..NONE }, Budget { expiries: 1, losses: 2, ..NONE }]
    {
        assert_holds(
            "one occurrence",
            Rules { occurrences: 1, may, ..Rules::CALM },
            &Property::ALL,
            1_000,
        );
    }
}

#[test]
fn every_promise_holds_for_a_one_shot_beside_a_cron_job() {
    for may in
        [Budget { crashes: 1, cancels: 1, ..NONE }, Budget { expiries: 1, losses: 1, ..NONE }]
    {
        assert_holds(
            "a one-shot",
            Rules { occurrences: 1, has_once: true, may, ..Rules::CALM },
            &Property::ALL,
            5_000,
        );
    }
}

#[test]
fn every_promise_holds_under_each_overlap_rule() {
    for overlap in [Overlap::Skip, Overlap::Replace, Overlap::Allow, QUEUE] {
        for may in
            [Budget { crashes: 1, cancels: 1, ..NONE }, Budget { losses: 1, failures: 1, ..NONE }]
        {
            assert_holds(
                &format!("{overlap:?}"),
                Rules { overlap, may, ..Rules::CALM },
                &Property::ALL,
                1_000,
            );
        }
    }
}

#[test]
fn every_promise_holds_for_three_occurrences_in_a_row() {
    let may = Budget { crashes: 1, expiries: 1, ..NONE };
    assert_holds(
        "three occurrences",
        Rules { occurrences: 3, may, ..Rules::CALM },
        &Property::ALL,
        5_000,
    );
}

#[test]
fn every_promise_holds_for_runs_that_fail_are_handed_back_and_cancelled() {
    let may = Budget { failures: 1, hand_backs: 1, cancels: 1, expiries: 1, ..NONE };
    assert_holds("retries and hand-backs", Rules { may, ..Rules::CALM }, &Property::ALL, 5_000);
}

#[test]
fn every_promise_holds_for_dead_runs_that_a_user_retries() {
    for overlap in [Overlap::Skip, Overlap::Replace, Overlap::Allow, QUEUE] {
        for may in [
            Budget { failures: 1, retries: 1, cancels: 1, ..NONE },
            Budget { crashes: 1, failures: 1, retries: 1, ..NONE },
        ] {
            assert_holds(
                &format!("retried, {overlap:?}"),
                Rules { overlap, may, ..Rules::CALM },
                &Property::ALL,
                1_000,
            );
        }
    }
    let may = Budget { failures: 2, retries: 2, losses: 1, ..NONE };
    assert_holds(
        "retried twice",
        Rules { occurrences: 1, may, ..Rules::CALM },
        &Property::ALL,
        1_000,
    );
    let may = Budget { failures: 1, retries: 1, losses: 1, ..NONE };
    let once = Rules { occurrences: 1, has_once: true, ..Rules::CALM };
    assert_holds("retried, a one-shot", Rules { may, ..once }, &Property::ALL, 1_000);
    let may = Budget { crashes: 1, retries: 1, losses: 1, ..NONE };
    let delivery = Delivery::AtMostOnce;
    assert_holds(
        "retried, at most once",
        Rules { delivery, may, ..Rules::CALM },
        &Property::ALL,
        1_000,
    );
}

#[test]
fn every_promise_holds_for_a_job_that_is_removed_and_added_again() {
    for overlap in [Overlap::Skip, Overlap::Replace, Overlap::Allow, QUEUE] {
        // Under `allow` a crash as well gives ten times as many states.
        let crashes = u8::from(overlap != Overlap::Allow);
        for may in [
            Budget { removals: 1, failures: 1, crashes, ..NONE },
            Budget { removals: 1, losses: 1, ..NONE },
        ] {
            assert_holds(
                &format!("readded, {overlap:?}"),
                Rules { overlap, may, ..Rules::CALM },
                &Property::ALL,
                1_000,
            );
        }
    }
    let may = Budget { removals: 2, failures: 1, retries: 1, ..NONE };
    assert_holds("readded twice", Rules { may, ..Rules::CALM }, &Property::ALL, 1_000);
}

#[test]
fn every_promise_holds_for_runs_asked_about_without_a_clear_answer() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let may = Budget { unclear: 2, crashes: 1, cancels: 1, ..NONE };
        assert_holds("unclear", Rules { delivery, may, ..Rules::CALM }, &Property::ALL, 1_000);
        let may = Budget { unclear: 1, losses: 1, expiries: 1, ..NONE };
        assert_holds(
            "unclear",
            Rules { occurrences: 1, delivery, may, ..Rules::CALM },
            &Property::ALL,
            500,
        );
    }
}

#[test]
fn under_replace_every_promise_holds_for_three_occurrences_of_which_the_newest_wins() {
    let may = Budget { crashes: 1, cancels: 1, ..NONE };
    let rules = Rules { occurrences: 3, overlap: Overlap::Replace, may, ..Rules::CALM };
    assert_holds("replace, three occurrences", rules, &Property::ALL, 5_000);
}

#[test]
fn an_at_most_once_run_starts_once_whatever_happens() {
    let at_most_once = Rules { delivery: Delivery::AtMostOnce, ..Rules::CALM };
    let may = Budget { crashes: 1, expiries: 1, losses: 1, hand_backs: 1, ..NONE };
    assert_holds(
        "at most once",
        Rules { occurrences: 1, may, ..at_most_once },
        &Property::ALL,
        5_000,
    );
    let may = Budget { crashes: 1, losses: 1, ..NONE };
    assert_holds(
        "at most once, two occurrences",
        Rules { may, ..at_most_once },
        &Property::ALL,
        5_000,
    );
}

#[test]
fn a_frozen_host_may_overlap_but_its_end_is_refused_and_nothing_is_lost() {
    let may = Budget { expiries: 1, losses: 1, ..NONE };
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let rules = Rules { hosts: Hosts::Frozen, delivery, may, ..Rules::CALM };
        assert_holds(
            "a frozen host",
            rules,
            &all_but(&[Property::NoOverlap, Property::OneOfAJob]),
            1_000,
        );
    }
    let rules = Rules { hosts: Hosts::Frozen, may, ..Rules::CALM };
    assert_breaks("a frozen host", rules, Property::NoOverlap);
    assert_breaks("a frozen host", rules, Property::OneOfAJob);
}

/// The promises that a failover with a lost tail breaks.
/// The others hold: fences go on rising, so a stale end is refused; the cron job goes on.
/// Every run that the new primary knows comes to its end.
const LOST_WITH_THE_TAIL: [Property; 6] = [
    Property::NothingLost,
    Property::OneResult,
    Property::OneStart,
    Property::NoOverlap,
    Property::OneOfAJob,
    Property::PlantedOnce,
];

#[test]
fn after_a_lossy_failover_every_known_run_ends_and_no_stale_end_is_taken() {
    let may = Budget { failovers: 1, crashes: 1, ..NONE };
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let rules = Rules { delivery, may, ..Rules::CALM };
        assert_holds("a failover", rules, &all_but(&LOST_WITH_THE_TAIL), 5_000);
    }
    let rules = Rules {
        occurrences: 1,
        has_once: true,
        may: Budget { failovers: 1, ..NONE },
        ..Rules::CALM
    };
    assert_holds("a failover with a one-shot", rules, &all_but(&LOST_WITH_THE_TAIL), 1_000);
}

#[test]
fn a_lossy_failover_breaks_the_promises_that_need_every_acknowledged_write() {
    let rules = Rules {
        occurrences: 1,
        has_once: true,
        may: Budget { failovers: 1, ..NONE },
        ..Rules::CALM
    };
    for property in LOST_WITH_THE_TAIL {
        let delivery = if property == Property::OneStart {
            Delivery::AtMostOnce
        } else {
            Delivery::AtLeastOnce
        };
        let needs_two = matches!(property, Property::PlantedOnce | Property::OneOfAJob);
        let occurrences = if needs_two { 2 } else { 1 };
        assert_breaks("a failover", Rules { occurrences, delivery, ..rules }, property);
    }
}
