//! The proof of the model itself: each rule, when broken, breaks the promise it protects, and the
//! search finds the way.

use schedd_core::domain::job::job_spec::Delivery;

use super::guarantees::assert_breaks;
use super::properties::Property;
use super::rules::{Broken, Budget, Hosts, Rules};

const NONE: Budget = Rules::CALM.may;

fn with(broken: Broken, may: Budget) -> Rules {
    Rules { broken: Some(broken), may, ..Rules::CALM }
}

#[test]
fn without_the_token_check_two_ends_of_a_run_are_taken() {
    let rules = with(Broken::NoTokenCheck, Budget { expiries: 1, losses: 1, ..NONE });
    assert_breaks("no token check", rules, Property::OneResult);
    assert_breaks("no token check", rules, Property::NoStaleEnd);
}

#[test]
fn a_claim_in_two_calls_loses_the_run_with_its_node() {
    assert_breaks(
        "ZREM first",
        with(Broken::ZremFirst, Budget { crashes: 1, ..NONE }),
        Property::NothingLost,
    );
}

#[test]
fn without_a_start_mark_an_at_most_once_run_starts_twice() {
    let rules = with(Broken::NoStartMark, Budget { crashes: 1, ..NONE });
    assert_breaks(
        "no start mark",
        Rules { delivery: Delivery::AtMostOnce, ..rules },
        Property::OneStart,
    );
}

#[test]
fn never_renewing_a_lease_gives_runs_away_and_without_a_keeper_overlaps() {
    let rules = with(Broken::RenewNever, NONE);
    assert_breaks("renew never", rules, Property::StartsHaveCauses);
    assert_breaks("renew never", Rules { hosts: Hosts::Frozen, ..rules }, Property::NoOverlap);
}

#[test]
fn a_successor_planted_at_completion_is_late_and_missing_after_a_failed_end() {
    let rules = with(Broken::SuccessorAtCompletion, Budget { cancels: 1, ..NONE });
    assert_breaks("successor at completion", rules, Property::SuccessorPlanted);
    assert_breaks("successor at completion", rules, Property::EveryRunEnds);
}

#[test]
fn a_reaper_that_trusts_the_clock_takes_a_run_from_a_node_at_work() {
    let rules = with(Broken::ReaperTrustsClock, NONE);
    assert_breaks("a reaper that trusts the clock", rules, Property::NoOverlap);
    assert_breaks("a reaper that trusts the clock", rules, Property::StartsHaveCauses);
}

#[test]
fn a_claim_that_ignores_the_job_of_a_run_begins_it_under_a_later_job() {
    let may = Budget { removals: 1, failures: 1, ..NONE };
    assert_breaks(
        "a former job's run begins",
        with(Broken::FormerBegins, may),
        Property::OwnDefinition,
    );
}

#[test]
fn a_retry_that_does_not_name_the_fence_it_read_brings_a_run_back_that_died_again() {
    let may = Budget { failures: 2, retries: 1, losses: 1, ..NONE };
    let rules = with(Broken::RetryOfAnyFence, may);
    assert_breaks(
        "a retry of any fence",
        Rules { occurrences: 1, ..rules },
        Property::RetriedAsAsked,
    );
}
