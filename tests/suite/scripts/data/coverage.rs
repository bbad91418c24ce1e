//! What the headers of `lua/` declare, held against the tests: a reply word without a test that names it fails here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a script's header says.
pub(crate) struct Header {
    pub(crate) script: String,
    pub(crate) keys: Vec<String>,
    replies: Vec<String>,
}

/// The headers of all scripts.
pub(crate) fn headers() -> Vec<Header> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let mut files: Vec<_> = fs::read_dir(lua).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.is_file());
    let read = |file: &std::path::PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        let header = text.split("\n\n").next().unwrap().replace("\n--  ", "");
        let listed = |title: &str| -> Vec<String> {
            let line = header.lines().find_map(|line| line.strip_prefix(title));
            line.map(names_in).unwrap_or_default()
        };
        let replies = header.lines().filter_map(|line| line.strip_prefix("-- Reply "));
        Header {
            script: file.file_stem().unwrap().to_str().unwrap().to_owned(),
            keys: [listed("-- Keys: "), listed("-- Keys of each item: ")].concat(),
            replies: replies.map(|line| line.split(':').next().unwrap().to_owned()).collect(),
        }
    };
    files.iter().map(read).collect()
}

/// The names in a list, without notes in parentheses and types.
fn names_in(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut bare = String::new();
    for c in list.chars() {
        depth += i32::from(c == '(');
        if depth == 0 {
            bare.push(c);
        }
        depth -= i32::from(c == ')');
    }
    let names = bare.split(',').map(|name| name.trim().split(':').next().unwrap().to_owned());
    names.collect()
}

/// Script, reply word and the test that meets it. `wrong_type` of every script is met in [`crate::scripts::data::wrong_types`].
const TESTS: &[(&str, &str, &str)] = &[
    ("add_jobs", "added", "a_plain_add_leaves_what_a_judged_add_leaves"),
    ("apply_job", "created", "a_new_job_stands_in_the_list_with_its_first_run_planted"),
    ("apply_job", "updated", "a_changed_schedule_moves_a_run_to_come_and_owes_one_already_due"),
    ("apply_job", "unchanged", "an_equal_definition_changes_nothing"),
    ("apply_job", "exists", "a_taken_name_is_reported_and_kept"),
    ("apply_job", "other_kind", "a_taken_name_is_reported_and_kept"),
    ("apply_job", "taken", "a_second_job_of_a_unique_key_is_taken_and_leaves_nothing_behind"),
    ("apply_job", "stale", "an_edit_made_from_an_older_definition_is_stale"),
    ("apply_job", "no_lane", "a_job_that_needs_one_lane_more_than_nodes_read_is_refused"),
    ("apply_job", "occupied", "an_occurrence_that_has_run_is_not_planted_again_by_an_edit"),
    (
        "beat_node",
        "present",
        "a_node_that_beats_is_listed_and_its_second_beat_changes_only_when_it_was_seen",
    ),
    (
        "begin_epoch",
        "begun",
        "a_loss_noticed_by_several_nodes_is_marked_once_also_on_a_repeated_call",
    ),
    (
        "begin_epoch",
        "another",
        "a_loss_noticed_by_several_nodes_is_marked_once_also_on_a_repeated_call",
    ),
    ("beat_node", "taken", "a_name_is_another_s_until_that_is_long_unseen_or_known_to_be_dead"),
    ("cancel_run", "cancelled", "a_planned_run_ends_cancelled_and_the_next_is_planted"),
    ("cancel_run", "requested", "a_running_run_is_asked_to_stop_however_often"),
    ("cancel_run", "over", "a_run_that_is_over_is_reported_how_and_when"),
    ("cancel_run", "unknown", "a_run_nobody_planted_is_unknown"),
    (
        "cancel_run",
        "stale",
        "a_cancel_by_an_older_definition_or_over_a_taken_occurrence_is_refused",
    ),
    (
        "cancel_run",
        "occupied",
        "a_cancel_by_an_older_definition_or_over_a_taken_occurrence_is_refused",
    ),
    (
        "claim_plain_runs",
        "claimed",
        "a_plain_claim_leaves_what_the_judged_claim_leaves_and_other_runs_go_there",
    ),
    (
        "finish_plain_runs",
        "finished",
        "a_plain_end_leaves_what_the_judged_end_leaves_and_other_runs_stay",
    ),
    ("claim_runs", "items", "a_claim_takes_the_run_and_plants_the_next_in_one_step"),
    ("claim_runs", "claimed", "a_claim_takes_the_run_and_plants_the_next_in_one_step"),
    (
        "claim_runs",
        "gone",
        "a_claim_repeated_with_its_token_gives_the_same_fence_and_changes_nothing",
    ),
    ("claim_runs", "early", "a_run_is_not_claimed_before_it_is_ready"),
    ("claim_runs", "stale", "a_claim_made_from_an_older_definition_is_stale"),
    ("claim_runs", "unplanned", "a_regular_run_that_nobody_planned_is_not_claimed"),
    (
        "claim_runs",
        "bad_state",
        "a_run_whose_state_cannot_be_read_stays_due_to_be_put_aside_and_its_job_goes_on",
    ),
    ("claim_runs", "job_missing", "a_run_of_a_job_that_is_not_there_is_an_orphan"),
    ("claim_runs", "occupied", "an_occurrence_with_a_record_is_not_planted_again"),
    ("claim_runs", "skipped", "under_skip_the_later_run_ends_skipped_with_its_reason"),
    ("claim_runs", "waiting", "under_queue_one_waits_and_the_next_is_skipped"),
    ("claim_runs", "full", "blocked_runs_take_no_slot_and_nothing_is_claimed_beyond_the_slots"),
    (
        "claim_runs",
        "at_gate",
        "a_run_whose_key_is_taken_waits_and_is_woken_by_its_release_with_its_place",
    ),
    (
        "claim_runs",
        "withdrawn",
        "a_one_shot_that_a_clock_ahead_brought_to_a_gate_waits_for_its_time_after_all",
    ),
    ("claim_runs", "places", "places_a_definition_needs_no_more_are_given_up_at_the_claim"),
    (
        "claim_runs",
        "needs_own_gate",
        "a_job_others_are_not_to_run_beside_has_to_pass_the_gate_of_its_own_name",
    ),
    (
        "claim_runs",
        "cancelled",
        "a_run_whose_job_was_removed_ends_cancelled_and_a_started_one_goes_on",
    ),
    ("claim_runs", "no_room", "no_more_than_its_limit_run_of_a_queue_at_once"),
    ("claim_runs", "failed", "a_retry_later_than_max_age_ends_failed_and_a_manual_run_skipped"),
    ("declare_section", "declared", "a_section_is_written_once_for_each_change_of_its_text"),
    ("declare_section", "unchanged", "a_section_is_written_once_for_each_change_of_its_text"),
    ("declare_section", "withdrawn", "a_section_goes_with_the_last_file_that_has_it"),
    ("declare_section", "kept", "a_section_goes_with_the_last_file_that_has_it"),
    (
        "cancel_run",
        "places",
        "a_run_that_waits_or_was_woken_can_be_cancelled_and_the_next_gets_its_place",
    ),
    ("finish_run", "places", "a_lost_and_a_handed_back_run_give_their_places_up"),
    (
        "repair_gate",
        "repaired",
        "a_run_at_a_gate_against_its_record_is_removed_and_an_unnoticed_gate_opens",
    ),
    (
        "open_gate",
        "opened",
        "a_run_whose_key_is_taken_waits_and_is_woken_by_its_release_with_its_place",
    ),
    ("open_gate", "lanes", "a_run_that_waits_goes_back_to_its_own_lane"),
    ("open_gate", "members", "members_take_turns_in_their_order_whoever_comes_first"),
    ("recover_run", "places", "a_lost_and_a_handed_back_run_give_their_places_up"),
    ("restore_run", "places", "an_end_written_back_after_a_loss_gives_up_what_the_run_stood_at"),
    ("drop_backfill", "dropped", "what_waits_to_be_made_up_for_can_be_given_up"),
    ("drop_fields", "dropped", "a_field_that_holds_something_else_by_now_is_not_taken_out"),
    ("finish_run", "finished", "every_final_state_is_written_counted_and_put_into_history"),
    ("finish_run", "retrying", "a_retry_keeps_the_run_open_and_remembers_the_attempt"),
    ("finish_run", "released", "a_run_handed_back_takes_its_attempt_back_and_is_due_at_once"),
    (
        "finish_run",
        "asking_later",
        "a_run_to_be_asked_about_again_takes_its_attempt_back_and_waits",
    ),
    ("finish_run", "moved", "what_the_end_of_a_run_plants_lies_in_the_queue_its_job_has_by_then"),
    ("finish_run", "lost", "a_stale_holder_is_answered_lost_and_changes_nothing"),
    (
        "discard_entries",
        "discarded",
        "what_is_discarded_goes_with_its_key_and_is_noted_once_though_it_is_asked_twice",
    ),
    ("forget_jobs", "forgotten", "a_job_that_ended_is_forgotten_when_nothing_of_it_is_open"),
    (
        "forget_lanes",
        "forgotten",
        "a_lane_nobody_used_for_long_is_forgotten_unless_something_is_due_there",
    ),
    (
        "forget_nodes",
        "forgotten",
        "nodes_long_gone_are_forgotten_unless_their_file_still_lists_a_job",
    ),
    (
        "forget_outputs",
        "forgotten",
        "the_oldest_outputs_go_first_by_age_and_by_size_and_the_account_ends_at_nothing",
    ),
    ("forget_runs", "forgotten", "runs_past_their_age_go_and_younger_ones_stay"),
    (
        "forget_uniques",
        "forgotten",
        "keys_nobody_holds_go_when_they_are_looked_at_and_the_others_are_looked_at_again",
    ),
    (
        "inspect_job",
        "job",
        "the_facts_of_a_sound_job_and_of_its_runs_are_no_findings_and_nothing_is_to_mend",
    ),
    ("inspect_job", "stale", "a_job_that_changed_since_it_was_read_is_neither_judged_nor_mended"),
    (
        "inspect_runs",
        "items",
        "the_facts_of_a_sound_job_and_of_its_runs_are_no_findings_and_nothing_is_to_mend",
    ),
    (
        "inspect_runs",
        "run",
        "the_facts_of_a_sound_job_and_of_its_runs_are_no_findings_and_nothing_is_to_mend",
    ),
    (
        "judge_deadline",
        "notified",
        "a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks",
    ),
    ("judge_deadline", "met", "a_run_in_time_a_paused_and_a_removed_one_are_not_reported_of"),
    (
        "judge_deadline",
        "early",
        "a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks",
    ),
    (
        "judge_deadline",
        "gone",
        "a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks",
    ),
    ("leave_node", "left", "a_node_leaves_under_its_own_incarnation_only"),
    ("leave_node", "another", "a_node_leaves_under_its_own_incarnation_only"),
    (
        "list_job_gates",
        "job_gates",
        "gates_of_a_lane_are_listed_with_their_jobs_and_crowded_gates_passed_over",
    ),
    (
        "unlist_job_gates",
        "unlisted",
        "a_job_that_ran_once_is_taken_off_the_list_of_those_with_gates_and_no_other_is",
    ),
    (
        "list_behind",
        "behind",
        "what_stands_behind_an_entry_is_reported_in_order_and_nothing_that_is_not_due",
    ),
    (
        "list_behind",
        "gone",
        "what_stands_behind_an_entry_is_reported_in_order_and_nothing_that_is_not_due",
    ),
    ("list_due", "due", "a_poll_reports_the_due_runs_in_order_the_next_one_and_the_leases"),
    ("read_page", "page", "a_page_begins_behind_its_cursor_whatever_came_or_went"),
    ("record_server", "recorded", "a_server_just_met_has_nothing_due_for_a_moment_and_is_met_once"),
    ("repair_counts", "repaired", "a_counter_that_moved_since_it_was_counted_is_left"),
    ("repair_counts", "sound", "a_counter_that_moved_since_it_was_counted_is_left"),
    ("repair_job", "repaired", "what_is_missing_is_mended_and_never_planted_over_a_record"),
    (
        "repair_job",
        "sound",
        "the_facts_of_a_sound_job_and_of_its_runs_are_no_findings_and_nothing_is_to_mend",
    ),
    ("repair_job", "stale", "a_job_that_changed_since_it_was_read_is_neither_judged_nor_mended"),
    ("repair_job", "occupied", "what_is_missing_is_mended_and_never_planted_over_a_record"),
    ("repair_run", "repaired", "what_is_missing_is_mended_and_never_planted_over_a_record"),
    ("repair_run", "stale", "a_run_that_changed_since_it_was_read_is_not_mended"),
    ("note_backlog", "begun", "nodes_that_see_one_backlog_get_the_same_time_of_its_beginning"),
    ("note_backlog", "goes_on", "nodes_that_see_one_backlog_get_the_same_time_of_its_beginning"),
    ("note_backlog", "over", "a_backlog_that_is_over_is_followed_by_another_one"),
    (
        "note_events",
        "noted",
        "what_hit_a_node_reads_back_and_its_end_takes_the_place_of_its_beginning",
    ),
    (
        "note_lanes",
        "noted",
        "a_lane_nobody_used_for_long_is_forgotten_unless_something_is_due_there",
    ),
    ("pause_job", "paused", "a_paused_job_keeps_its_planned_run_out_of_the_due_set"),
    ("pause_job", "already", "a_paused_job_keeps_its_planned_run_out_of_the_due_set"),
    ("pause_job", "unknown", "pausing_what_is_not_there_or_has_moved_on_changes_nothing"),
    (
        "pause_job",
        "places",
        "a_one_shot_that_waits_at_a_gate_is_held_by_a_pause_and_runs_after_the_resume",
    ),
    ("pause_job", "stale", "pausing_what_is_not_there_or_has_moved_on_changes_nothing"),
    (
        "plant_backfill",
        "planted",
        "occurrences_are_made_up_for_one_after_the_other_and_the_schedule_is_left_alone",
    ),
    (
        "plant_backfill",
        "busy",
        "occurrences_are_made_up_for_one_after_the_other_and_the_schedule_is_left_alone",
    ),
    (
        "plant_backfill",
        "over",
        "occurrences_are_made_up_for_one_after_the_other_and_the_schedule_is_left_alone",
    ),
    (
        "plant_backfill",
        "empty",
        "occurrences_are_made_up_for_one_after_the_other_and_the_schedule_is_left_alone",
    ),
    ("plant_backfill", "unknown", "of_a_job_that_is_gone_nothing_is_made_up_for"),
    ("plant_backfill", "stale", "only_the_first_that_waits_is_planted_in_the_queue_its_job_has"),
    (
        "repair_chain",
        "repaired",
        "links_and_occurrences_that_disagree_with_the_definition_are_repaired",
    ),
    (
        "repair_chain",
        "sound",
        "links_and_occurrences_that_disagree_with_the_definition_are_repaired",
    ),
    (
        "repair_chain",
        "stale",
        "links_and_occurrences_that_disagree_with_the_definition_are_repaired",
    ),
    ("plant_child", "planted", "a_child_runs_once_when_all_parents_have_succeeded"),
    ("plant_child", "awaits", "a_child_runs_once_when_all_parents_have_succeeded"),
    ("plant_child", "skipped", "a_child_that_is_skipped_ends_its_own_children_too"),
    ("plant_child", "known", "a_retried_parent_runs_no_child_a_second_time"),
    ("plant_child", "unrelated", "a_child_without_this_parent_or_with_another_lane_gets_no_end"),
    ("plant_child", "stale", "a_child_without_this_parent_or_with_another_lane_gets_no_end"),
    ("plant_child", "gone", "an_end_is_given_once_however_many_nodes_give_it"),
    ("plant_child", "full", "an_end_waits_while_too_many_occurrences_wait_for_parents"),
    (
        "plant_manual",
        "planted",
        "a_run_asked_for_by_hand_is_planted_once_and_leaves_the_schedule_alone",
    ),
    ("plant_manual", "unknown", "a_run_asked_for_by_hand_needs_a_job_in_the_queue_it_was_read_in"),
    ("plant_manual", "stale", "a_run_asked_for_by_hand_needs_a_job_in_the_queue_it_was_read_in"),
    (
        "plant_notice",
        "planted",
        "the_end_of_a_run_asks_for_the_notices_its_job_wants_and_each_is_planted_once",
    ),
    ("plant_notice", "obsolete", "a_notice_asked_for_again_is_not_reported_again"),
    (
        "plant_notice",
        "suppressed",
        "beyond_ten_that_wait_a_notice_is_only_counted_and_the_next_one_says_how_many",
    ),
    ("plant_notice", "waits", "those_only_counted_are_reported_of_in_one_when_no_other_is_open"),
    ("plant_notice", "dropped", "a_notice_nobody_wants_any_more_is_dropped"),
    (
        "plant_notice",
        "gone",
        "the_end_of_a_run_asks_for_the_notices_its_job_wants_and_each_is_planted_once",
    ),
    (
        "pull_scores_back",
        "pulled",
        "future_marks_are_pulled_in_in_order_and_marks_without_a_time_stay",
    ),
    ("plant_reboot", "planted", "a_job_is_planted_once_for_each_boot_of_each_host"),
    ("plant_reboot", "known", "a_job_is_planted_once_for_each_boot_of_each_host"),
    ("plant_reboot", "unknown", "a_job_that_is_gone_or_paused_is_not_planted_for_a_boot"),
    ("plant_reboot", "paused", "a_job_that_is_gone_or_paused_is_not_planted_for_a_boot"),
    (
        "quarantine_key",
        "quarantined",
        "a_key_is_moved_aside_whole_to_a_place_that_is_free_and_noted",
    ),
    ("quarantine_key", "gone", "a_key_is_moved_aside_whole_to_a_place_that_is_free_and_noted"),
    ("quarantine_key", "taken", "a_key_is_moved_aside_whole_to_a_place_that_is_free_and_noted"),
    (
        "quarantine_key",
        "full",
        "an_entry_beyond_the_bound_is_taken_out_and_counted_and_a_key_stays_where_it_is",
    ),
    (
        "quarantine_run",
        "places",
        "a_woken_run_put_aside_gives_its_place_up_and_is_judged_anew_once_it_is_back",
    ),
    (
        "quarantine_run",
        "dropped",
        "an_entry_beyond_the_bound_is_taken_out_and_counted_and_a_key_stays_where_it_is",
    ),
    (
        "quarantine_run",
        "quarantined",
        "any_entry_is_put_aside_once_whatever_its_bytes_and_its_score",
    ),
    ("quarantine_run", "gone", "an_entry_that_has_moved_meanwhile_is_left"),
    ("queue_backfill", "queued", "an_occurrence_asked_for_twice_is_made_up_for_once"),
    ("queue_backfill", "full", "no_more_than_ten_thousand_wait"),
    ("queue_backfill", "unknown", "of_a_job_that_is_gone_nothing_is_made_up_for"),
    ("recover_run", "recovered", "a_run_is_due_again_and_its_recovery_counted"),
    ("recover_run", "ended", "a_run_that_may_not_be_tried_again_ends"),
    ("recover_run", "alive", "a_lease_that_has_moved_is_alive"),
    ("recover_run", "moved", "so_does_what_a_lost_node_or_a_cancel_ends"),
    ("recover_run", "gone", "of_two_that_recover_a_run_the_second_finds_nothing"),
    (
        "remove_job",
        "removed",
        "a_removed_job_is_gone_from_the_list_with_its_planned_run_and_stays_so",
    ),
    ("remove_job", "over", "a_removed_job_is_gone_from_the_list_with_its_planned_run_and_stays_so"),
    ("remove_job", "listed", "a_job_of_two_files_goes_with_the_last_that_lists_it"),
    ("remove_job", "other_kind", "a_job_nobody_has_is_unknown_and_one_of_another_kind_is_held"),
    ("remove_job", "stale", "a_job_that_changed_since_it_was_read_is_stale_and_nothing_is_touched"),
    ("remove_job", "unknown", "a_job_nobody_has_is_unknown_and_one_of_another_kind_is_held"),
    (
        "renew_leases",
        "renewed",
        "a_renewal_reports_of_each_lease_whether_it_is_held_stopped_or_lost",
    ),
    (
        "renew_leases_in_move",
        "renewed",
        "a_renewal_reports_of_each_lease_whether_it_is_held_stopped_or_lost",
    ),
    ("replace_mark", "replaced", "only_the_request_that_made_a_mark_replaces_it"),
    ("replace_mark", "another", "only_the_request_that_made_a_mark_replaces_it"),
    ("restore_entry", "places", "a_lease_put_back_counts_in_its_queue_and_its_run_has_its_places"),
    ("restore_entry", "restored", "a_due_run_put_back_is_due_at_its_own_time_once"),
    ("restore_entry", "gone", "a_due_run_put_back_is_due_at_its_own_time_once"),
    (
        "restore_entry",
        "taken",
        "an_entry_that_cannot_be_used_or_has_its_place_taken_stays_in_quarantine",
    ),
    (
        "restore_entry",
        "refused",
        "an_entry_that_cannot_be_used_or_has_its_place_taken_stays_in_quarantine",
    ),
    (
        "restore_key",
        "restored",
        "a_key_comes_back_only_if_it_holds_what_its_name_says_and_the_name_is_free",
    ),
    (
        "restore_key",
        "gone",
        "a_key_comes_back_only_if_it_holds_what_its_name_says_and_the_name_is_free",
    ),
    (
        "restore_key",
        "taken",
        "a_key_comes_back_only_if_it_holds_what_its_name_says_and_the_name_is_free",
    ),
    (
        "restore_key",
        "refused",
        "a_key_comes_back_only_if_it_holds_what_its_name_says_and_the_name_is_free",
    ),
    ("report_loss", "reported", "a_report_stands_once_with_its_loss_and_raises_the_fence"),
    ("report_loss", "moved", "a_report_stands_once_with_its_loss_and_raises_the_fence"),
    ("repair_ledger_range", "repaired", "a_range_is_set_right_only_while_it_reports_what_was_read"),
    ("repair_ledger_range", "stale", "a_range_is_set_right_only_while_it_reports_what_was_read"),
    (
        "repair_skipped_range",
        "repaired",
        "a_range_is_set_right_only_while_it_reports_what_was_read",
    ),
    ("repair_skipped_range", "stale", "a_range_is_set_right_only_while_it_reports_what_was_read"),
    (
        "restore_run",
        "restored",
        "an_ended_run_is_written_back_wherever_it_stands_and_its_job_goes_on",
    ),
    ("restore_run", "known", "what_redis_knows_better_stays_as_it_is"),
    (
        "restore_run",
        "stale",
        "a_restore_by_an_older_definition_or_over_a_taken_occurrence_is_refused",
    ),
    (
        "restore_run",
        "occupied",
        "a_restore_by_an_older_definition_or_over_a_taken_occurrence_is_refused",
    ),
    ("restore_run", "moved", "nothing_is_written_back_under_another_mark"),
    ("return_run", "returned", "a_run_lost_while_it_ran_is_due_again_as_one_that_was_claimed"),
    (
        "return_run",
        "same",
        "a_run_is_not_put_back_into_data_that_was_not_lost_or_knows_it_or_has_no_job",
    ),
    (
        "return_run",
        "known",
        "a_run_is_not_put_back_into_data_that_was_not_lost_or_knows_it_or_has_no_job",
    ),
    (
        "return_run",
        "unknown",
        "a_run_is_not_put_back_into_data_that_was_not_lost_or_knows_it_or_has_no_job",
    ),
    ("resume_job", "resumed", "a_resume_reports_the_range_once_and_plants_the_next"),
    ("resume_job", "already", "a_resume_reports_the_range_once_and_plants_the_next"),
    ("resume_job", "unknown", "a_resume_made_from_another_state_of_the_job_changes_nothing"),
    ("resume_job", "stale", "a_resume_made_from_another_state_of_the_job_changes_nothing"),
    ("resume_job", "occupied", "a_resume_does_not_plant_an_occurrence_that_has_a_record"),
    (
        "retry_run",
        "retried",
        "a_dead_letter_is_ready_again_with_a_new_budget_and_its_attempts_go_on",
    ),
    (
        "retry_run",
        "waiting",
        "a_retried_run_waits_behind_an_open_one_of_its_job_and_is_freed_by_its_end",
    ),
    (
        "retry_run",
        "already",
        "a_retry_repeated_answers_already_and_changes_nothing_however_the_run_went_on",
    ),
    ("retry_run", "over", "what_is_no_dead_letter_or_has_no_job_is_not_retried"),
    ("retry_run", "unknown", "what_is_no_dead_letter_or_has_no_job_is_not_retried"),
    ("retry_run", "gone", "what_is_no_dead_letter_or_has_no_job_is_not_retried"),
    (
        "retry_run",
        "former",
        "a_dead_letter_of_an_earlier_job_is_not_retried_with_another_definition",
    ),
    ("retry_run", "stale", "a_retry_made_from_an_older_definition_is_stale"),
    ("set_next", "postponed", "a_planned_run_starts_no_earlier_than_the_time_that_was_set"),
    ("set_next", "planted", "a_run_is_planned_beside_the_schedule_for_an_earlier_time"),
    ("set_next", "turn", "the_next_turn_of_a_group_waits_for_the_time_that_was_set"),
    ("set_next", "paused", "a_time_for_a_paused_ended_or_changed_job_changes_nothing"),
    ("set_next", "unknown", "a_time_for_a_paused_ended_or_changed_job_changes_nothing"),
    ("set_next", "lost", "a_run_that_lost_its_lease_sets_no_time"),
    ("set_next", "stale", "a_time_for_a_paused_ended_or_changed_job_changes_nothing"),
    ("set_queue", "set", "what_is_set_by_hand_holds_until_somebody_edits_the_section"),
    ("set_queue", "unknown", "a_queue_nobody_declared_is_unknown"),
    ("switch_queue", "paused", "a_pause_by_hand_ends_by_hand_only_and_twice_is_once"),
    ("switch_queue", "resumed", "a_pause_by_hand_ends_by_hand_only_and_twice_is_once"),
    ("switch_queue", "already", "a_pause_by_hand_ends_by_hand_only_and_twice_is_once"),
    ("switch_queue", "unknown", "a_queue_nobody_declared_is_unknown"),
    ("skip_run", "skipped", "a_range_is_one_record_counted_in_full"),
    ("skip_run", "gone", "a_range_is_one_record_counted_in_full"),
    ("skip_run", "over", "a_planned_run_whose_record_says_otherwise_is_not_skipped_over_it"),
    ("skip_run", "stale", "a_skip_by_an_older_rev_or_over_a_taken_occurrence_is_refused"),
    ("skip_run", "occupied", "a_skip_by_an_older_rev_or_over_a_taken_occurrence_is_refused"),
    (
        "spread_runs",
        "spread",
        "missed_runs_get_times_of_their_own_and_what_comes_after_them_is_planted",
    ),
    (
        "spread_runs",
        "gone",
        "only_the_pending_run_read_is_spread_and_never_over_a_taken_occurrence",
    ),
    (
        "spread_runs",
        "stale",
        "only_the_pending_run_read_is_spread_and_never_over_a_taken_occurrence",
    ),
    (
        "spread_runs",
        "occupied",
        "only_the_pending_run_read_is_spread_and_never_over_a_taken_occurrence",
    ),
    ("take_check_turn", "turn", "one_node_has_the_turn_and_the_next_goes_on_where_it_ended"),
    ("take_check_turn", "later", "one_node_has_the_turn_and_the_next_goes_on_where_it_ended"),
    (
        "watch_run",
        "watched",
        "a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks",
    ),
    (
        "watch_run",
        "known",
        "a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks",
    ),
    ("watch_run", "gone", "a_run_in_time_a_paused_and_a_removed_one_are_not_reported_of"),
    ("note_progress", "noted", "a_progress_is_that_of_the_attempt_that_reported_it"),
    ("note_progress", "lost", "a_progress_is_that_of_the_attempt_that_reported_it"),
    (
        "write_output",
        "written",
        "what_was_printed_reads_back_and_a_second_writing_replaces_the_first",
    ),
    ("write_output", "lost", "a_stale_holder_writes_nothing_over_its_successor_s"),
];

#[test]
fn every_reply_word_of_every_header_has_a_test() {
    let declared: BTreeSet<(String, String)> = headers()
        .into_iter()
        .flat_map(|header| {
            header.replies.into_iter().map(move |word| (header.script.clone(), word))
        })
        .filter(|(_, word)| word != "wrong_type")
        .collect();
    let tested: BTreeSet<(String, String)> =
        TESTS.iter().map(|(script, word, _)| ((*script).to_owned(), (*word).to_owned())).collect();
    assert_eq!(declared, tested);
}

/// Returns the texts of all files in a folder and its folders.
fn texts_below(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = |path: PathBuf| {
        if path.is_dir() { texts_below(&path) } else { vec![fs::read_to_string(path).unwrap()] }
    };
    paths.flat_map(texts).collect()
}

#[test]
fn every_test_named_here_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/scripts");
    let texts = texts_below(&folder);
    for (script, word, test) in TESTS {
        let opening = format!("async fn {test}()");
        assert!(
            texts.iter().any(|text| text.contains(&opening)),
            "{script} {word}: no test {test}"
        );
    }
}
