//! Tests of the dispatcher without Redis: polls are lists of entries, and claims are scripted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::queue_rules::Share;
use schedd_schedule::names::RunId;

fn at(seconds: u64) -> BootInstant {
    BootInstant::from_nanos(1_000_000_000 * (1_000 + seconds))
}

fn lane(text: &str) -> Lane {
    text.parse().unwrap()
}

/// Returns entries of the runs `NAME@1`, `NAME@2` and so on, ready in this order.
fn entries(name: &str, count: usize) -> Vec<DueEntry> {
    (1..=count)
        .map(|ready| DueEntry { member: format!("{name}@{ready}"), score: ready.to_string() })
        .collect()
}

fn queue(slots: usize, weight: u32, lanes: Vec<(&str, Vec<DueEntry>)>) -> FoundQueue {
    let lanes: Vec<(Lane, Vec<DueEntry>)> =
        lanes.into_iter().map(|(name, found)| (lane(name), found)).collect();
    FoundQueue { queue: lanes[0].0.queue().clone(), share: Share::Weight(weight), slots, lanes }
}

/// Returns the report of a batch in which as many runs start as there are slots.
fn all_start(batch: &ClaimBatch) -> ClaimReport {
    let started = batch.runs.len().min(batch.slots);
    ClaimReport { started, done: started, judged: batch.runs.len(), ..ClaimReport::default() }
}

fn all_blocked(batch: &ClaimBatch) -> ClaimReport {
    let runs = batch.runs.len();
    ClaimReport { done: runs, judged: runs, blocked: runs, ..ClaimReport::default() }
}

/// Returns the runs of a batch, as text.
fn runs(batch: &ClaimBatch) -> Vec<String> {
    batch.runs.iter().map(|due_run| due_run.run.to_string()).collect()
}

/// Carries out all steps of a round. Returns the claimed batches, in order.
fn carry_out(
    dispatcher: &mut Dispatcher,
    mut answer: impl FnMut(&ClaimBatch) -> ClaimReport,
) -> Vec<Vec<String>> {
    let mut batches = Vec::new();
    while let Some(step) = dispatcher.next(at(0)) {
        match step {
            DispatchStep::Claim(batch) => {
                batches.push(runs(&batch));
                dispatcher.note(ClaimReport { again: Vec::new(), ..answer(&batch) });
            }
            DispatchStep::SetAside { .. } => {
                dispatcher.note(ClaimReport { done: 1, ..ClaimReport::default() });
            }
        }
    }
    batches
}

fn more(dispatcher: &Dispatcher, name: &str) -> usize {
    dispatcher.left_in(&lane(name))
}

#[test]
fn the_most_urgent_runs_are_claimed_first_and_no_more_than_slots() {
    let mut dispatcher = Dispatcher::default();
    dispatcher.begin_round(
        vec![queue(3, 1, vec![("q!5", entries("urgent", 2)), ("q", entries("usual", 4))])],
        9,
    );
    let batches = carry_out(&mut dispatcher, all_start);
    assert_eq!(batches, [vec!["urgent@1", "urgent@2"], vec!["usual@1"]]);
    assert_eq!((dispatcher.pace(), more(&dispatcher, "q")), (DispatchPace::AtOnce, 0));
}

#[test]
fn a_run_that_does_not_start_leaves_its_slot_to_the_next_in_turn() {
    let mut dispatcher = Dispatcher::default();
    dispatcher.begin_round(vec![queue(2, 1, vec![("q", entries("a", 5))])], 9);
    let mut is_first = true;
    let batches = carry_out(&mut dispatcher, |batch| {
        let gone = usize::from(std::mem::take(&mut is_first));
        ClaimReport {
            started: batch.runs.len() - gone,
            done: batch.runs.len(),
            judged: batch.runs.len(),
            ..ClaimReport::default()
        }
    });
    assert_eq!(batches, [vec!["a@1", "a@2"], vec!["a@3"]]);
}

#[test]
fn a_lane_of_which_other_nodes_claim_runs_offers_more_runs_than_slots() {
    let mut dispatcher = Dispatcher::default();
    let gone = |batch: &ClaimBatch| {
        let count = batch.runs.len();
        ClaimReport { gone: count, done: count, judged: count, ..ClaimReport::default() }
    };
    dispatcher.begin_round(vec![queue(4, 1, vec![("q", entries("a", 4))])], 4);
    assert_eq!(carry_out(&mut dispatcher, gone), [runs_of("a", 4)]);
    assert_eq!(more(&dispatcher, "q"), 8);
    let found = queue(9, 1, vec![("q", entries("b", 6))]);
    assert_eq!(dispatcher.demand(&found).wants, 6, "other nodes may claim none of them");
    for wanted in (4..=12).rev() {
        dispatcher.begin_round(vec![queue(4, 1, vec![("q", entries("b", 20))])], 4);
        assert_eq!(carry_out(&mut dispatcher, all_start), [runs_of("b", wanted)]);
    }
}

#[test]
fn many_runs_of_one_poll_are_claimed_by_several_calls() {
    let mut dispatcher = Dispatcher::default();
    let due = 2 * BATCH + 20;
    dispatcher.begin_round(vec![queue(due, 1, vec![("q", entries("a", due + 5))])], due);
    let sizes: Vec<usize> = carry_out(&mut dispatcher, all_start).iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, BATCH, 20]);
}

#[test]
fn a_poll_of_many_lanes_or_beside_other_nodes_reads_the_runs_of_one_call() {
    let mut dispatcher = Dispatcher::default();
    let slots = 4 * BATCH;
    let offers = |lanes: usize| {
        let lanes = (0..lanes).map(|number| lane(&format!("q+l{number}"))).collect();
        [Offer { queue: "q".parse().unwrap(), lanes, slots, share: Share::Weight(1) }]
    };
    let limit = |dispatcher: &Dispatcher, lanes| dispatcher.asks(&offers(lanes))[0].limit;
    assert_eq!(limit(&dispatcher, FEW_LANES), slots);
    assert_eq!(limit(&dispatcher, FEW_LANES + 1), BATCH);
    dispatcher.begin_round(vec![queue(1, 1, vec![("q+l0", entries("a", 1))])], 1);
    let gone = |_: &_| ClaimReport { gone: 1, done: 1, judged: 1, ..ClaimReport::default() };
    carry_out(&mut dispatcher, gone);
    assert_eq!(limit(&dispatcher, 1), BATCH);
}

#[test]
fn slots_that_a_queue_did_not_use_go_to_a_queue_that_got_none() {
    let mut dispatcher = Dispatcher::default();
    let found = vec![
        queue(1, 1000, vec![("a", entries("a", 1))]),
        queue(1, 1, vec![("b", entries("b", 1))]),
    ];
    dispatcher.begin_round(found, 1);
    let batches = carry_out(&mut dispatcher, |batch| {
        if runs(batch) == ["a@1"] { all_blocked(batch) } else { all_start(batch) }
    });
    assert_eq!(batches, [["a@1"], ["b@1"]]);
    dispatcher.begin_round(
        vec![queue(1, 1, vec![("a", entries("c", 1))]), queue(1, 1, vec![("b", entries("d", 1))])],
        1,
    );
    assert_eq!(
        carry_out(&mut dispatcher, all_start).len(),
        1,
        "no slot is left for the other queue"
    );
}

#[test]
fn every_tenth_claim_of_a_queue_is_for_the_run_that_is_ready_longest() {
    let mut dispatcher = Dispatcher::default();
    let mut claimed = Vec::new();
    for round in 1..=10 {
        let urgent = vec![DueEntry {
            member: format!("urgent@{}", 100 + round),
            score: (100 + round).to_string(),
        }];
        dispatcher
            .begin_round(vec![queue(1, 1, vec![("q!5", urgent), ("q", entries("old", 1))])], 9);
        claimed.extend(carry_out(&mut dispatcher, all_start).concat());
    }
    assert_eq!(claimed.iter().position(|run| run == "old@1"), Some(9), "{claimed:?}");
}

#[test]
fn a_run_decided_again_and_again_is_left_to_the_next_poll() {
    let mut dispatcher = Dispatcher::default();
    dispatcher.begin_round(vec![queue(1, 1, vec![("q", entries("a", 1))])], 9);
    let mut passes = 0;
    while let Some(DispatchStep::Claim(batch)) = dispatcher.next(at(0)) {
        passes += 1;
        dispatcher.note(ClaimReport { judged: 1, again: batch.runs, ..ClaimReport::default() });
    }
    assert_eq!((passes, more(&dispatcher, "q"), dispatcher.pace()), (5, 1, DispatchPace::NextTick));
}

#[test]
fn entries_that_stay_do_not_hide_the_entries_behind_them() {
    let mut dispatcher = Dispatcher::default();
    dispatcher.begin_round(vec![queue(2, 1, vec![("q", entries("a", 2))])], 9);
    carry_out(&mut dispatcher, |batch| ClaimReport {
        left: batch.runs.len(),
        ..ClaimReport::default()
    });
    let offer = Offer {
        queue: lane("q").queue().clone(),
        lanes: vec![lane("q")],
        slots: 2,
        share: Share::Weight(1),
    };
    let asks = dispatcher.asks(&[offer]);
    assert_eq!((asks[0].limit, asks[0].more), (2, 2));
}

#[test]
fn a_queue_that_lets_no_run_start_ends_its_turn_without_leaving_anything() {
    let mut dispatcher = Dispatcher::default();
    dispatcher.begin_round(vec![queue(1, 1, vec![("q", entries("a", 1))])], 9);
    while let Some(DispatchStep::Claim(batch)) = dispatcher.next(at(0)) {
        dispatcher.note(ClaimReport {
            judged: 1,
            has_no_room: true,
            again: batch.runs,
            ..ClaimReport::default()
        });
    }
    assert_eq!((more(&dispatcher, "q"), dispatcher.pace()), (0, DispatchPace::NextTick));
}

#[test]
fn an_entry_that_is_no_run_is_set_aside_before_any_claim() {
    let mut dispatcher = Dispatcher::default();
    let mut found = entries("a", 1);
    found.push(DueEntry { member: "garbage".to_owned(), score: "1".to_owned() });
    dispatcher.begin_round(vec![queue(2, 1, vec![("q", found)])], 9);
    let Some(DispatchStep::SetAside { entry, .. }) = dispatcher.next(at(0)) else {
        panic!("it is not set aside")
    };
    assert_eq!(entry.member, "garbage");
    dispatcher.note(ClaimReport { done: 1, ..ClaimReport::default() });
    assert_eq!(carry_out(&mut dispatcher, all_start), [["a@1"]]);
}

#[test]
fn a_failed_step_ends_the_turn_of_its_queue_alone_and_passes_no_slot_on() {
    let mut dispatcher = Dispatcher::default();
    let found =
        vec![queue(2, 1, vec![("a", entries("a", 2))]), queue(1, 1, vec![("b", entries("b", 1))])];
    dispatcher.begin_round(found, 3);
    assert!(matches!(dispatcher.next(at(0)), Some(DispatchStep::Claim(_))));
    let report = ClaimReport { blocked: 1, ..ClaimReport::default() };
    assert_eq!(dispatcher.give_up(report).as_ref(), Some(lane("a").queue()));
    assert_eq!(
        (dispatcher.pace(), more(&dispatcher, "a")),
        (DispatchPace::NextTick, BATCH),
        "what blocked is known"
    );
    assert_eq!(carry_out(&mut dispatcher, all_start), [["b@1"]]);
    assert_eq!(dispatcher.pace(), DispatchPace::AtOnce);
}

#[test]
fn a_run_listed_twice_is_claimed_once() {
    let mut dispatcher = Dispatcher::default();
    dispatcher
        .begin_round(vec![queue(4, 1, vec![("q!5", entries("a", 1)), ("q", entries("a", 2))])], 9);
    assert_eq!(carry_out(&mut dispatcher, all_start), [["a@1"], ["a@2"]]);
}

#[test]
fn a_refused_run_is_left_alone_for_a_while() {
    let mut dispatcher = Dispatcher::default();
    let run: RunId = "a@1".parse().unwrap();
    dispatcher.hints.refuse(run, at(0));
    let claimed_at = |dispatcher: &mut Dispatcher, seconds| {
        dispatcher.begin_round(vec![queue(1, 1, vec![("q", entries("a", 1))])], 9);
        let is_claimed = dispatcher.next(at(seconds)).is_some();
        (is_claimed, more(dispatcher, "q"))
    };
    assert_eq!(claimed_at(&mut dispatcher, 4), (false, 1));
    assert!(claimed_at(&mut dispatcher, 5).0);
}

#[test]
fn one_round_tries_a_batch_of_runs_from_a_lane_with_blocked_runs() {
    let mut dispatcher = Dispatcher::default();
    let found = || vec![queue(2, 1, vec![("q", entries("a", 120))])];
    dispatcher.begin_round(found(), 9);
    let tried = carry_out(&mut dispatcher, all_blocked).concat();
    assert_eq!(tried.len(), 2 + BATCH, "the first claim showed that runs are blocked");
    assert_eq!(more(&dispatcher, "q"), BATCH);
    dispatcher.begin_round(found(), 9);
    assert_eq!(
        carry_out(&mut dispatcher, all_blocked),
        [runs_of("a", BATCH)],
        "one call judges a whole batch"
    );
    dispatcher.begin_round(vec![queue(2, 1, vec![("q", entries("b", 1))])], 9);
    carry_out(&mut dispatcher, all_start);
    assert_eq!(more(&dispatcher, "q"), 0, "no run of the lane is blocked any more");
}

fn runs_of(name: &str, count: usize) -> Vec<String> {
    (1..=count).map(|ready| format!("{name}@{ready}")).collect()
}

/// Returns a dispatcher after a round in which a lane of 50 due runs had only blocked runs.
fn behind_blocked() -> Dispatcher {
    let mut dispatcher = Dispatcher::default();
    for _ in 0..2 {
        dispatcher.begin_round(vec![queue(2, 1, vec![("q", entries("a", BATCH))])], 9);
        carry_out(&mut dispatcher, all_blocked);
    }
    dispatcher
}

#[test]
fn a_lane_full_of_blocked_runs_is_searched_behind_its_head() {
    let mut dispatcher = behind_blocked();
    let (queue, of) = dispatcher.next_blocked().unwrap();
    assert_eq!((of.clone(), dispatcher.next_blocked()), (lane("q"), None));
    let walk = dispatcher.take_walk(&of, at(0));
    let found = FoundBehind { runs: entries("free", 1), is_by_gate: true };
    dispatcher.begin_behind((queue, of.clone()), walk, found, 2, at(0));
    assert_eq!(carry_out(&mut dispatcher, all_start), [["free@1"]]);
    assert_eq!(dispatcher.pace(), DispatchPace::AtOnce);
    assert_eq!(more(&dispatcher, "q"), BATCH, "the head of the lane is still blocked");
    assert!(!dispatcher.take_walk(&of, at(0)).is_by_entries);
}

#[test]
fn a_search_by_gate_that_handled_nothing_goes_on_entry_by_entry() {
    let mut dispatcher = behind_blocked();
    let (queue, of) = dispatcher.next_blocked().unwrap();
    let found = FoundBehind { runs: entries("late", 1), is_by_gate: true };
    dispatcher.begin_behind((queue, of.clone()), LaneWalk::default(), found, 2, at(0));
    carry_out(&mut dispatcher, |_| ClaimReport { left: 1, ..ClaimReport::default() });
    assert!(dispatcher.take_walk(&of, at(0)).is_by_entries);
}

#[test]
fn a_search_that_found_nothing_goes_on_at_once_until_it_came_to_the_end() {
    let none = || FoundBehind { runs: Vec::new(), is_by_gate: false };
    let mut dispatcher = behind_blocked();
    let of = dispatcher.next_blocked().unwrap();
    dispatcher.round.pace = DispatchPace::Idle;
    let through = LaneWalk { arrived: Some(at(0)), ..LaneWalk::default() };
    dispatcher.begin_behind(of.clone(), through, none(), 2, at(0));
    assert_eq!(dispatcher.pace(), DispatchPace::Idle);
    dispatcher.begin_behind(of, LaneWalk::default(), none(), 2, at(0));
    assert_eq!(dispatcher.pace(), DispatchPace::AtOnce);
}

#[test]
fn a_walk_is_kept_until_its_lane_shows_few_runs_again() {
    let mut dispatcher = behind_blocked();
    let of = dispatcher.next_blocked().unwrap();
    let kept =
        LaneWalk { after: Some("a@7".to_owned()), arrived: Some(at(0)), ..LaneWalk::default() };
    dispatcher.begin_behind(
        of,
        kept,
        FoundBehind { runs: Vec::new(), is_by_gate: false },
        2,
        at(0),
    );
    dispatcher.begin_round(Vec::new(), 0);
    assert!(dispatcher.walks.contains_key(&lane("q")), "a poll without a free slot shows nothing");
    dispatcher.begin_round(vec![queue(2, 1, vec![("q", entries("a", 3))])], 9);
    assert!(dispatcher.walks.is_empty());
}

#[test]
fn the_gates_of_a_run_are_for_one_order() {
    let mut hints = RunHints::default();
    let (run, gate): (RunId, Gate) = ("a@1".parse().unwrap(), Gate::of_key(&"k".parse().unwrap()));
    hints.note_gates(run.clone(), vec![gate.clone()]);
    assert_eq!((hints.take_gates(&run), hints.take_gates(&run)), (vec![gate], Vec::new()));
}

proptest! {
    /// Tests rounds with random queues in which each claimed run starts, is gone, stays or blocks.
    #[test]
    fn no_run_is_claimed_twice_and_no_round_starts_more_than_its_room(
        sizes in prop::collection::vec((0usize..70, 0usize..70, 1usize..20, 1u32..5), 1..4),
        capacity in 0usize..30,
        replies in prop::collection::vec(0u8..4, 1..40),
    ) {
        let mut dispatcher = Dispatcher::default();
        let mut replies = replies.into_iter().cycle();
        for _ in 0..3 {
            let found: Vec<FoundQueue> = sizes.iter().enumerate().filter(|(_, (urgent, usual, ..))| urgent + usual > 0).map(|(at, (urgent, usual, slots, weight))| {
                let (high, low) = (format!("q{at}!3"), format!("q{at}"));
                queue(*slots, *weight, vec![(&high, entries(&format!("u{at}"), *urgent)), (&low, entries(&format!("n{at}"), *usual))])
            }).collect();
            let slots: BTreeMap<String, usize> = found.iter().map(|found| (found.queue.to_string(), found.slots)).collect();
            let found = found.into_iter().map(|mut found| { found.lanes.retain(|(_, due_run)| !due_run.is_empty()); found }).collect();
            dispatcher.begin_round(found, capacity);
            let (mut claimed, mut started) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
            while let Some(step) = dispatcher.next(at(0)) {
                let DispatchStep::Claim(batch) = step else { panic!("all entries are runs") };
                prop_assert!(!batch.runs.is_empty() && batch.slots > 0);
                let mut report = ClaimReport { judged: batch.runs.len(), ..ClaimReport::default() };
                for due_run in &batch.runs {
                    prop_assert!(claimed.insert(due_run.run.clone()), "{} is claimed twice", due_run.run);
                    match replies.next().unwrap() {
                        0 if report.started < batch.slots => (report.started, report.done) = (report.started + 1, report.done + 1),
                        0 | 1 => report.done += 1,
                        2 => report.left += 1,
                        _ => (report.blocked, report.done) = (report.blocked + 1, report.done + 1),
                    }
                }
                *started.entry(batch.lane.queue().to_string()).or_default() += report.started;
                dispatcher.note(report);
            }
            prop_assert!(started.values().sum::<usize>() <= capacity);
            prop_assert!(started.iter().all(|(queue, started)| *started <= slots[queue]), "{started:?} of {slots:?}");
        }
    }

    /// Tests that queues with more due runs than the node has slots get slots by weight.
    #[test]
    fn queues_that_compete_share_the_slots_by_weight(weight in 1u32..5, rounds in 10usize..40) {
        let mut dispatcher = Dispatcher::default();
        let mut started = [0usize; 2];
        for _ in 0..rounds {
            let found = vec![queue(9, weight, vec![("a", entries("a", 9))]), queue(9, 1, vec![("b", entries("b", 9))])];
            dispatcher.begin_round(found, 2);
            for run in carry_out(&mut dispatcher, all_start).concat() {
                started[usize::from(run.starts_with('b'))] += 1;
            }
        }
        let due = rounds * 2 / (weight as usize + 1);
        prop_assert!(started[1].abs_diff(due) <= 2, "{started:?}, due {due}");
        prop_assert_eq!(started[0] + started[1], rounds * 2);
    }
}

#[test]
fn a_hint_ends_with_its_time() {
    let mut hints = RunHints::default();
    let run: RunId = "a@1".parse().unwrap();
    hints.refuse(run.clone(), at(0));
    let late = at(0).saturating_add(Duration::from_secs(5));
    assert!(
        hints.is_refused(&run, at(4))
            && !hints.is_refused(&run, late)
            && !hints.is_refused(&run, at(0))
    );
}

#[test]
fn a_run_that_finds_no_slot_is_passed_over_by_no_run_of_less_priority() {
    for (taken, wanted) in [(0, vec!["urgent@1"]), (1, vec!["urgent@1", "urgent@2"])] {
        let mut dispatcher = Dispatcher::default();
        let lanes = vec![("q!9", entries("urgent", 2)), ("q", entries("later", 1))];
        dispatcher.begin_round(vec![queue(1 + taken, 1, lanes)], 1 + taken);
        let mut claimed = Vec::new();
        while let Some(DispatchStep::Claim(batch)) = dispatcher.next(at(0)) {
            claimed.extend(runs(&batch));
            dispatcher.limit(taken);
            dispatcher.note(all_start(&ClaimBatch { slots: taken, ..batch }));
        }
        assert_eq!(claimed, wanted);
    }
}
