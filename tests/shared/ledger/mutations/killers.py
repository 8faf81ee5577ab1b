"""Check -> the scenario that noticed its removal when this was written.

Only a hint: where it does not notice any more, or a check is not listed, all scenarios are tried.
"""

from __future__ import annotations

NO_CHECKS = {
    "batch: call('HLEN', NOM) == 0 -> false": "saves reading nominations where there are none",
    "store: job_tasks[jid] -> false": "saves reading the same tasks twice",
    "batch: #record == 19 -> false": "saves reading a record that tells nothing more",
}
"""Conditions that only look like checks, and what they are for."""

KILLERS = {
    "things: now and idle > capacity -> false": (
        "a_host_port_is_had_once_on_a_node_and_once_on_every_other-0"
    ),
    "things: future > capacity -> false": (
        "a_releasing_port_can_be_nominated_and_is_kept_from_others-0"
    ),
    "things: rec[i] ~= 0 -> false": "a_host_port_is_had_once_on_a_node_and_once_on_every_other-0",
    "rules: word == FIT -> false": "a_host_port_is_had_once_on_a_node_and_once_on_every_other-0",
    "rules: word ~= COMMITTED -> false": (
        "a_releasing_port_can_be_nominated_and_is_kept_from_others-0"
    ),
    "rules: not devices -> false": "a_host_port_is_had_once_on_a_node_and_once_on_every_other-0",
    "batch: own.name == t.name -> false": (
        "a_class_that_names_the_thing_itself_may_not_be_given_it_again-0"
    ),
    "rules: word == COMMITTED -> true": "a_device_that_no_node_declares_has_nothing-0",
    "rules: verdict or word -> true": "a_device_that_no_node_declares_has_nothing-0",
    "things: #name == 0 -> false": "a_thing_without_a_proper_name_is_refused-0",
    "things: #name > 128 -> false": "a_thing_without_a_proper_name_is_refused-1",
    "things: string.find(name, '%z') -> false": "a_thing_without_a_proper_name_is_refused-2",
    "things: seen[name] -> false": "a_thing_is_named_once_with_as_many_amounts_as_it_offers-0",
    "things: #vector == 0 -> false": "amounts_of_things_are_checked-0",
    "things: type(name) ~= 'string' -> false": "operations_have_their_form-12",
    "things: type(vector) ~= 'table' -> false": "operations_have_their_form-14",
    "things: amount ~= floor(amount) -> false": "operations_have_their_form-16",
    "things: #vector > 4 -> false": "amounts_of_things_are_checked-1",
    "things: amount < 0 -> false": "amounts_of_things_are_checked-2",
    "things: amount >= LIMIT -> false": "amounts_of_things_are_checked-3",
    "things: #vector ~= #t[2] -> false": (
        "a_thing_is_named_once_with_as_many_amounts_as_it_offers-0"
    ),
    "batch: early -> false": "a_replay_changes_nothing_and_gets_the_first_answer-0",
    "batch: #batch[k] ~= #batch[3] -> false": "a_batch_that_does_not_add_up_is_refused-0",
    "batch: op ~= operation_count + 1 -> false": "a_batch_that_does_not_add_up_is_refused-2",
    "batch: run ~= run_count + 1 -> false": "a_batch_that_does_not_add_up_is_refused-3",
    "batch: not conditions[d[3]] -> false": "a_batch_that_does_not_add_up_is_refused-4",
    "plan: is ~= wanted and is ~= 'none' -> false": (
        "a_key_of_another_type_stops_a_script_before_it_writes-0"
    ),
    "bless: after == 0 -> true": "an_old_copy_is_not_blessed-0",
    "bless: after < milliseconds or (after == milliseconds and after_number <= number) -> true": (
        "the_trimmed_part_of_the_log_counts_as_observed-0"
    ),
    "bless: found[1] ~= cluster -> false": "the_ledger_of_another_cluster_is_not_blessed-0",
    "bless: not owns(COORDINATOR, epoch) -> false": (
        "a_leader_whose_lease_ran_out_leads_until_another_claims-0"
    ),
    "bless: not knows_what_was_seen() -> false": "an_old_copy_is_not_blessed-0",
    "claim: left and left > 0 -> false": (
        "a_lease_that_ran_out_may_be_renewed_until_somebody_claims-0"
    ),
    "claim: not owns(COORDINATOR, ARGV[3]) -> false": (
        "a_leader_whose_lease_ran_out_leads_until_another_claims-0"
    ),
    "commit: verdict ~= COMMITTED -> false": "a_tail_stands_alone_and_falls_with_its_core-0",
    "commit: charge(rec[2], cls, 1) -> false": "queue_limits_hold_for_every_ancestor-0",
    "commit: not cls.best_effort and join_group(rec, group, 1) -> false": (
        "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0"
    ),
    "commit: verdict ~= COMMITTED -> false #2": "job_and_node_reads_are_checked-0",
    "commit: verdict == COMMITTED -> true": (
        "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0"
    ),
    "leader: not found -> false": "only_one_leads_until_its_lease_runs_out-0",
    "lease: found[1] == text -> true": "a_leader_whose_lease_ran_out_leads_until_another_claims-0",
    "lease: not given_back(found[2]) -> true": (
        "releasing_the_leadership_ends_writes_and_frees_the_lease-0"
    ),
    "prelude: sha1hex(said) ~= ARGV[#ARGV] -> false": (
        "a_call_that_was_altered_on_its_way_is_refused-0"
    ),
    "prelude: sub(record, -8) ~= sub(sha1hex(body), 1, 8) -> false": (
        "records_that_were_altered_are_not_taken-0"
    ),
    "books: held < minimum - needed * CHILDREN -> true": (
        "a_group_has_its_members_and_enough_of_the_groups_below_it-0"
    ),
    "books: not rec -> false": "a_task_is_adopted_though_its_queue_is_gone-0",
    "books: (hi == limit and lo > rec[b + 3]) -> false": "queue_limits_hold_for_every_ancestor-0",
    "books: hi > limit -> false": "limits_beyond_the_lower_limb_count-0",
    "books: limit >= 0 and (hi > limit or (hi == limit and lo > rec[b + 3])) -> false": (
        "queue_limits_hold_for_every_ancestor-0"
    ),
    "prelude: not stored -> false": "a_clean_statement_is_committed_and_booked_everywhere-0",
    "window: ARGV[4] ~= run -> false": "a_batch_of_an_earlier_run_is_refused-0",
    "window: meta[1] ~= run -> false": "knowing_the_run_is_not_enough_before_it_is_blessed-0",
    "window: owner[1] ~= epoch -> false": "an_epoch_that_ended_is_refused_whole-0",
    "window: owner[2] and lease_left(owner[2]) <= 0 -> false": (
        "an_answered_batch_is_fenced_after_the_end_of_its_lease-0"
    ),
    "window: window[2] -> false": "a_replay_changes_nothing_and_gets_the_first_answer-0",
    "window: window_top and sequence <= window_top - SEQUENCES -> false": (
        "the_window_remembers_64_sequences_in_any_order-0"
    ),
    "record: #item[5] ~= #item[3] -> false": "a_restart_has_its_form-1",
    "record: item[1] ~= 0 -> false": "a_restart_has_its_form-0",
    "record: type(item[5]) ~= 'table' -> false": (
        "tasks_that_begin_anew_name_their_incarnations-0"
    ),
    "record: (rec.incarnation or 0) ~= incarnation -> false": "late_and_twice_it_changes_nothing-0",
    "record: not rec -> false": "unplaced_and_unknown_tasks_do_not_restart-0",
    "record: rec[1] < SUCCEEDED -> false": "a_task_that_holds_a_node_is_not_restarted-0",
    "record: not class[rec[3]] -> false": ("unplaced_and_unknown_tasks_do_not_restart-0"),
    "record: owner[3] ~= 0 -> false": "nothing_of_a_deleted_job_begins_anew-0",
    "record: early -> false": "reports_and_intake_are_replayed_too-0",
    "record: BINDING to 0": "a_refused_bind_returns_the_task_to_pending-0",
    "record: BINDING to BOUND": "the_life_of_a_task-0",
    "record: BINDING to LOST": "a_task_only_goes_forward-0",
    "record: BINDING to FAILED": "a_gang_already_in_between_may_grow-0",
    "record: BINDING to RELEASING_STATE": "a_nomination_may_wait_for_releasing_tasks-0",
    "record: BINDING to RUNNING": "inapplicable_reports_change_nothing-0",
    "record: BINDING to SUCCEEDED": "a_host_port_is_there_without_being_said-0",
    "record: BOUND to 0": "a_task_only_goes_forward-1",
    "record: BOUND to BOUND": "a_task_only_goes_forward-1",
    "record: BOUND to LOST": "a_task_only_goes_forward-1",
    "record: BOUND to FAILED": "a_task_only_goes_forward-1",
    "record: BOUND to RELEASING_STATE": "a_task_only_goes_forward-1",
    "record: BOUND to RUNNING": "the_life_of_a_task-0",
    "record: BOUND to SUCCEEDED": "a_task_only_goes_forward-1",
    "record: FAILED to 0": "a_task_only_goes_forward-5",
    "record: FAILED to BOUND": "a_task_only_goes_forward-5",
    "record: FAILED to LOST": "a_task_only_goes_forward-5",
    "record: FAILED to FAILED": "a_task_only_goes_forward-5",
    "record: FAILED to RELEASING_STATE": "a_task_only_goes_forward-5",
    "record: FAILED to RUNNING": "a_task_only_goes_forward-5",
    "record: FAILED to SUCCEEDED": "a_task_only_goes_forward-5",
    "record: LOST to 0": "a_task_only_goes_forward-6",
    "record: LOST to BOUND": "a_task_only_goes_forward-6",
    "record: LOST to FAILED": "a_task_only_goes_forward-6",
    "record: LOST to LOST": "a_task_only_goes_forward-6",
    "record: LOST to RELEASING_STATE": "a_task_only_goes_forward-6",
    "record: LOST to RUNNING": "a_task_only_goes_forward-6",
    "record: LOST to SUCCEEDED": "a_task_only_goes_forward-6",
    "record: RELEASING_STATE to 0": "a_task_only_goes_forward-3",
    "record: RELEASING_STATE to BOUND": "a_task_only_goes_forward-3",
    "record: RELEASING_STATE to LOST": "a_task_only_goes_forward-3",
    "record: RELEASING_STATE to FAILED": "a_failure_gives_its_place_in_the_gang_back-0",
    "record: RELEASING_STATE to RELEASING_STATE": "a_task_only_goes_forward-3",
    "record: RELEASING_STATE to RUNNING": "a_task_only_goes_forward-3",
    "record: RELEASING_STATE to SUCCEEDED": "the_life_of_a_task-0",
    "record: RUNNING to 0": "inapplicable_reports_change_nothing-0",
    "record: RUNNING to BOUND": "inapplicable_reports_change_nothing-0",
    "record: RUNNING to LOST": "a_task_only_goes_forward-2",
    "record: RUNNING to FAILED": "a_task_only_goes_forward-2",
    "record: RUNNING to RELEASING_STATE": "the_life_of_a_task-0",
    "record: RUNNING to RUNNING": "a_task_only_goes_forward-2",
    "record: RUNNING to SUCCEEDED": (
        "a_task_that_was_thought_pending_is_counted_in_node_queue_and_gang-0"
    ),
    "record: SUCCEEDED to 0": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to BOUND": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to LOST": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to FAILED": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to RELEASING_STATE": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to RUNNING": "a_task_only_goes_forward-4",
    "record: SUCCEEDED to SUCCEEDED": "a_task_only_goes_forward-4",
    "record: item[1] < BOUND -> false": "only_tasks_on_a_node_are_adopted-0",
    "record: item[1] > RELEASING_STATE -> false": "only_tasks_on_a_node_are_adopted-2",
    "record: #item[3] ~= #item[4] -> false": "a_wrong_statement_refuses_its_batch-0",
    "record: not allowed[item[1]] -> false": "an_unknown_state_is_refused-0",
    "record: tix < 0 -> false": "tasks_are_whole_numbers-0",
    "record: tix ~= floor(tix) -> false": "tasks_are_whole_numbers-1",
    "record: not held -> false": "an_ended_task_is_not_adopted-0",
    "record: rec[2] == row -> false": "an_adoption_that_cannot_be_counted_changes_nothing-0",
    "record: not node[row] -> false": "the_log_tells_adopted_tasks_and_their_rows-0",
    "record: not owner -> false": "an_adoption_that_cannot_be_counted_changes_nothing-2",
    "record: group >= owner[4] -> false": "an_adoption_that_cannot_be_counted_changes_nothing-4",
    "record: not class[cid] -> false": "an_adoption_that_cannot_be_counted_changes_nothing-3",
    "record: not job[jid] -> false": "inapplicable_reports_change_nothing-0",
    "record: state ~= FAILED -> false": "inapplicable_reports_change_nothing-0",
    "record: rec[2] ~= row -> false": "inapplicable_reports_change_nothing-0",
    "release: call('HGET', EPOCHS, writer) ~= epoch -> false": (
        "releasing_the_leadership_ends_writes_and_frees_the_lease-0"
    ),
    "renew: not owns(writer, epoch) -> false": "a_shard_is_claimed_from_its_worker_at_any_time-0",
    "rules: kind == ALLOCATE and idle > capacity -> false": (
        "a_host_port_is_there_without_being_said-0"
    ),
    "rules: future > capacity -> false": "a_nomination_holds_room_against_allocations-0",
    "rules: (promised and promised[name]) -> false": "a_task_is_promised_once-0",
    "rules: taken[name] -> false": "a_task_is_placed_once-0",
    "rules: not rec -> false": "job_and_node_reads_are_checked-0",
    "rules: rec[2] ~= specs[o] -> false": "job_and_node_reads_are_checked-0",
    "rules: rec[7 + 3 * above] <= n and lacks(rec, above) "
    "and not (extras[turn] or NONE)[7] -> false": (
        "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0"
    ),
    "rules: found -> false": "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0",
    "rules: before[group] <= 0 and lacks(rec, group) -> false": (
        "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0"
    ),
    "rules: over -> false": "queue_limits_hold_for_every_ancestor-0",
    "rules: seen[other] -> false": "a_wrong_statement_refuses_its_batch-0",
    "rules: other ~= jid and held and held[1] >= priority -> false": (
        "only_lower_ranks_are_displaced-0"
    ),
    "rules: not rec -> false #2": "job_and_node_reads_are_checked-0",
    "rules: rec[1] ~= heads[h + 2] -> false": "job_and_node_reads_are_checked-0",
    "rules: rec[2] ~= heads[h + 3] -> false": "job_and_node_reads_are_checked-0",
    "rules: rec[3] ~= 0 -> false": "job_and_node_reads_are_checked-0",
    "rules: not queue[rec[2]] -> false": "a_job_without_a_queue_waits-0",
    "rules: not class[runs[r + 2]] -> false": "job_and_node_reads_are_checked-0",
    "rules: runs[r + 3] >= rec[4] -> false": "job_and_node_reads_are_checked-0",
    "rules: value == 0 -> true": "domain_conditions-0",
    "rules: value >= 1 -> true": "a_counter_that_does_not_meet_its_condition-0",
    "rules: value <= d[4] -> true": "a_counter_that_does_not_meet_its_condition-1",
    "rules: not meets(d) -> false": "domain_conditions-0",
    "rules: o > last_op -> false": "a_host_port_is_there_without_being_said-0",
    "rules: verdict ~= COMMITTED -> false": "a_host_port_is_there_without_being_said-0",
    "rules: verdict ~= COMMITTED -> false #2": "a_host_port_is_there_without_being_said-0",
    "rules: over -> false #2": "queue_limits_hold_for_every_ancestor-0",
    "rules: at -> false": "a_gang_never_comes_to_stand_between_zero_and_its_minimum-0",
    "rules: not at -> true": "domain_conditions-0",
    "store: early -> false": "a_batch_of_an_earlier_run_is_refused-0",
    "store: #op ~= #shape + 1 -> false": "operations_have_their_form-3",
    "store: not shape -> false": "operations_have_their_form-0",
    "store: is == N and (value < -1 or value >= LIMIT or value ~= floor(value)) -> false": (
        "operations_have_their_form-5"
    ),
    "store: value < -1 -> false": "operations_have_their_form-5",
    "store: value >= LIMIT -> false": "operations_have_their_form-7",
    "store: value ~= floor(value) -> false": "operations_have_their_form-6",
    "store: (body ~= false and type(body) ~= S) -> false": "documents_have_their_form-2",
    "store: type(documents[i]) ~= S -> false": "documents_have_their_form-1",
    "store: not rec -> false": "a_job_is_forgotten_when_its_last_task_has_left-0",
    "store: #flat % width ~= 0 -> false": "operations_have_their_form-11",
    "store: slot < 0 -> false": "numbers_of_objects_are_within_bounds-0",
    "store: slot > 4095 -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-2",
    "store: slot ~= floor(slot) -> false": "operations_have_their_form-9",
    "store: flat[k] < 0 -> false": "numbers_of_objects_are_within_bounds-1",
    "store: flat[k] >= LIMIT -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-1",
    "store: flat[k] ~= floor(flat[k]) -> false": "operations_have_their_form-10",
    "store: #flat % 3 ~= 0 -> false": "operations_have_their_form-18",
    "store: #flat == 0 -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-5",
    "store: (index == 0 and flat[i] ~= -1) -> false": "operations_have_their_form-19",
    "store: flat[i] < -1 -> false": "numbers_of_objects_are_within_bounds-7",
    "store: flat[i] >= index -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-6",
    "store: flat[i + 1] < 0 -> false": "numbers_of_objects_are_within_bounds-6",
    "store: above == qid -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-3",
    "store: not queue[above] -> false": "a_wrong_object_refuses_its_batch_and_changes_nothing-4",
    "store: known and string.sub(known, 1, #packed) ~= packed -> false": (
        "a_wrong_object_refuses_its_batch_and_changes_nothing-0"
    ),
    "store: not rec -> false #2": "nodes_shrink_are_watched_and_go-0",
    "store: not rec -> false #3": "nodes_shrink_are_watched_and_go-0",
    "store: not rec -> false #4": "a_queue_goes_when_nothing_needs_it-0",
    "store: rec[b + 1] ~= 0 -> false": "a_queue_goes_when_nothing_needs_it-0",
    "store: rec[b] ~= 0 -> false": "a_queue_with_usage_in_the_high_limb_alone_stays-0",
    "store: above[1] == qid -> false": "a_queue_goes_when_nothing_needs_it-0",
    "store: not held -> false": "job_and_node_reads_are_checked-0",
    "store: to >= 0 and not queue[to] -> false": (
        "a_job_does_not_move_to_a_queue_that_is_not_there-0"
    ),
    "store: not rec -> false #5": "a_job_is_gone_once-0",
    "store: rec[3] ~= 0 -> false": "a_job_is_gone_once-0",
    "store: not rec -> false #6": "a_job_is_forgotten_when_its_last_task_has_left-0",
    "store: rec[3] == 0 -> false": "a_job_is_forgotten_when_its_last_task_has_left-0",
    "store: record[1] >= BINDING and record[1] <= RELEASING_STATE -> false": (
        "a_job_is_forgotten_when_its_last_task_has_left-0"
    ),
    "batch: #run[5] ~= #run[6] -> false": "a_batch_that_does_not_add_up_is_refused-5",
    "batch: rec[1] ~= 0 -> false": "a_victim_that_ends_by_itself_has_ended-0",
    "evict: n == 0 -> false": "only_a_task_that_still_runs_on_its_node_is_evicted-0",
    "evict: not rec -> false": "only_a_task_that_still_runs_on_its_node_is_evicted-0",
    "evict: rec[1] ~= BOUND and rec[1] ~= RUNNING -> false": (
        "one_of_two_statements_gets_a_victim-0"
    ),
    "evict: rec[2] ~= row -> false": "only_a_task_that_still_runs_on_its_node_is_evicted-0",
    "evict: rec[3] ~= run[3] -> false": "only_a_task_that_still_runs_on_its_node_is_evicted-0",
    "evict: rec[5] ~= run[4] -> false": "only_a_task_that_still_runs_on_its_node_is_evicted-0",
    "evict: not owner -> false": "the_victims_job_is_read-0",
    "evict: owner[1] ~= run[2] -> false": "the_victims_job_is_read-0",
    "evict: owner[3] ~= 0 -> false": "the_victims_job_is_read-0",
    "evict: not may_go(rec, run, run[6][i]) -> false": "one_of_two_statements_gets_a_victim-0",
    "evict: rec[7 + 3 * group] > rest and (whole or lacks(rec, group)) -> false": (
        "a_gang_keeps_its_minimum_or_goes_whole-0"
    ),
    "evict: group -> false": "a_gang_keeps_its_minimum_or_goes_whole-0",
    "evict: qid -> false": "a_queue_and_those_above_it_keep_what_is_guaranteed-0",
    "evict: verdict ~= COMMITTED -> false": "one_of_two_statements_gets_a_victim-0",
    "evict: verdict ~= COMMITTED -> false #2": "a_gang_keeps_its_minimum_or_goes_whole-0",
    "prelude: #record < 19 -> false": "a_task_record_of_another_length_is_not_taken-0",
    "prelude: rec[6] ~= task_seal(jid, tix, unpack(rec, 1, 5)) -> false": (
        "records_that_were_altered_are_not_taken-0"
    ),
    "prelude: #record == 19 -> true": "a_job_that_goes_with_its_victim-0",
    "record: rec.by -> true": "a_task_leaving_by_itself_is_no_victim_and_never_pending-0",
    "record: rec.by >= 0 -> true": "a_refused_bind_keeps_the_incarnation-0",
    "record: rec and rec[1] ~= 0 and (not held or rec[2] == row) -> false": (
        "an_adoption_that_cannot_be_counted_changes_nothing-0"
    ),
    "record: not allowed[state][rec[1]] and not (state == 0 and is_evicted(rec)) -> false": (
        "a_victim_that_ends_by_itself_has_ended-0"
    ),
    "prelude: sub(record, -8) ~= sub(sha1hex(name .. body), 1, 8) -> false": (
        "an_altered_eviction_record_is_detected-0"
    ),
    "bless: (found[2] and found[2] ~= ARGV[4]) -> false": (
        "records_of_another_schema_are_not_blessed-0"
    ),
    "bless: found[3] -> false": "records_of_another_schema_are_not_blessed-0",
    "record: item[1] == FAILED -> false": "a_deleted_one_is_held_until_it_has_ended-0",
    "rules: not class[runs[r + 2]].best_effort -> true": (
        "a_class_without_any_request_asks_for_nothing_either-0"
    ),
    "rules: runs[r + 1] == ALLOCATE -> true": "nominations_and_empty_cores_hold_no_gang_member-0",
    "rules: runs[r + 4] > 0 -> true": "nominations_and_empty_cores_hold_no_gang_member-0",
    "rules: not joins(r) -> false": "nominations_and_empty_cores_hold_no_gang_member-0",
    (
        "store: wanted ~= is and not (wanted == ANY and (value == false or is == T or is == S))"
        " -> false"
    ): "operations_have_their_form-4",
}
