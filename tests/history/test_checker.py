"""The checker on histories told by hand: silent on a good one, and loud at the right line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.checker import CheckReport, HistoryError, check
from tests.history.story import BEST_EFFORT, GPU, GPU_TASK, PODS, Story, good_story


def the_first(story: Story, folder: Path, *, closed: bool = False) -> tuple[int, int]:
    """(promise, line) of the first violation; fails where there is none."""
    report = story.check(folder, closed=closed)
    assert report.first is not None, "the checker found nothing"
    assert not report.ok
    return report.first.promise, report.first.line


def test_good_history_keeps_every_promise(tmp_path: Path) -> None:
    report = good_story().check(tmp_path, closed=True)
    assert report.violations == ()
    assert report.ok
    assert report.summary.table() == {
        "jobs": {"submitted": 3, "finished": 3, "pending": 0},
        "tasks": {"submitted": 8, "bound": 8, "bound_twice": 0, "finished": 8},
        "gangs_partly_bound": 0,
        "gangs_across_shards": 1,  # job 1 on nodes 0, 1 and 2; job 2 is in shard 1 as a whole
        "levels": {"L1": 6, "L2": 2, "L3": 2, "L4": 0},
        "statements": {"committed": 4, "rechecked": 1, "conflicts_true": 1, "conflicts_read": 1},
        "tasks_per_second": report.summary.table()["tasks_per_second"],
        "submit_to_bound_ms": report.summary.table()["submit_to_bound_ms"],
    }


def test_times_run_from_submit_to_bind(tmp_path: Path) -> None:
    story = Story()
    submitted = story.job(1, 2)["t"]
    story.commit(1, {0: 0, 1: 1})
    first = story.acts("bind", 1, {0: 0})["t"]
    story.t += 1.0
    last = story.acts("bind", 1, {1: 1})["t"]
    summary = story.check(tmp_path).summary
    assert summary.tasks_per_second == pytest.approx(2 / (last - submitted))
    middle = ((first - submitted) + (last - submitted)) / 2 * 1000
    assert summary.submit_to_bound_ms[0] == pytest.approx(middle, rel=1e-3)


def test_cluster_events_may_come_before_their_commits(tmp_path: Path) -> None:
    story = good_story()
    binds = [event for event in story.events if event["ev"] == "bind"]
    rest = [event for event in story.events if event["ev"] != "bind"]
    story.events = rest[:5] + binds + rest[5:]
    assert story.check(tmp_path, closed=True).ok


# --- promise 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["OK", "ALREADY"])
def test_second_live_binding(tmp_path: Path, answer: str) -> None:
    story = good_story()
    event = story.cluster("bind", ["9.0"], ["n0"], "OK")
    story.events.remove(event)
    at = next(i for i, e in enumerate(story.events) if e["ev"] == "start")
    second = story.cluster("bind", ["1.0"], ["n3"], answer)
    story.events.remove(second)
    story.events.insert(at, second)
    assert the_first(story, tmp_path) == (1, at + 1)
    assert story.check(tmp_path).summary.tasks_bound_twice == 1


def test_bound_again_after_its_end(tmp_path: Path) -> None:
    story = good_story()
    again = story.cluster("bind", ["1.0"], ["n0"], "OK")
    assert the_first(story, tmp_path) == (1, story.line_of(again))


def test_already_on_the_same_node_is_no_second_binding(tmp_path: Path) -> None:
    story = good_story()
    story.cluster("bind", ["1.0", "1.1"], ["n0", "n3"], "ALREADY", "ELSEWHERE")
    assert story.check(tmp_path, closed=True).ok


def test_two_starts(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    story.acts("start", 1, {0: 0})
    second = story.acts("start", 1, {0: 0})
    assert the_first(story, tmp_path) == (1, story.line_of(second))


def test_commit_of_a_task_that_is_held(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    second = story.commit(1, {0: 1}, shard="1")
    assert the_first(story, tmp_path) == (1, story.line_of(second))


def test_commit_again_after_a_refused_bind_is_allowed(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.cluster("bind", ["1.0"], ["n0"], "REFUSED")
    story.status("PENDING", 1, {0: 0})
    story.commit(1, {0: 1})
    story.run(1, {0: 1})
    assert story.check(tmp_path, closed=True).ok


# --- promise 2 --------------------------------------------------------------------------------


def test_node_over_its_allocatable(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3)
    story.commit(1, {0: 0, 1: 0})
    third = story.commit(1, {2: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(third))


def test_what_others_use_counts(tmp_path: Path) -> None:
    story = Story()
    story.ledger("observe", nodes=[{"row": 0, "used": [[GPU, 1000]]}])
    story.job(1, 2)
    both = story.commit(1, {0: 0, 1: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(both))


def test_excess_from_outside_is_no_violation_until_something_is_placed_there(
    tmp_path: Path,
) -> None:
    story = Story()
    story.job(1, 3)
    story.commit(1, {0: 0, 1: 0})
    shrunk = {"row": 0, "name": "n0", "allocatable": [[PODS, 10], [GPU, 1000]], "spec": 1}
    story.ledger("node", nodes=[shrunk])
    story.acts("bind", 1, {0: 0, 1: 0})
    assert story.check(tmp_path).ok
    story.status("BOUND", 1, {0: 0, 1: 0})
    story.acts("succeeded", 1, {0: 0})
    story.status("SUCCEEDED", 1, {0: 0})
    placed = story.commit(1, {2: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(placed))


def test_gone_node_takes_nothing(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.ledger("node_gone", rows=[0])
    placed = story.commit(1, {0: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(placed))


def test_a_node_that_comes_back_keeps_what_runs_there(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3)
    story.commit(1, {0: 0, 1: 0})
    story.acts("bind", 1, {0: 0, 1: 0})
    story.ledger("node_gone", rows=[0])
    node = {"row": 0, "name": "n0", "allocatable": [[PODS, 10], [GPU, 2000]], "spec": 3}
    story.ledger("node", nodes=[node])
    assert story.check(tmp_path).ok
    third = story.commit(1, {2: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(third))


def test_a_node_that_comes_back_as_another_row(tmp_path: Path) -> None:
    story = Story()
    story.ledger("node_gone", rows=[0])
    node = {"row": 4, "name": "n0", "allocatable": [[PODS, 10], [GPU, 2000]], "spec": 1}
    again = story.ledger("node", nodes=[node])
    assert the_first(story, tmp_path) == (2, story.line_of(again))


def test_implied_capacity_of_a_host_port(tmp_path: Path) -> None:
    story = Story()
    port = {"cid": 7, "requests": [[PODS, 1, 0], [5, 1, 1]], "best_effort": False}
    story.ledger("class", classes=[port])
    story.job(1, 2, roles=[[7, 0, 2, 0]])
    story.commit(1, {0: 0}, cid=7)
    second = story.commit(1, {1: 0}, cid=7)
    assert the_first(story, tmp_path) == (2, story.line_of(second))


def test_releasing_counts_for_nominations_only(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.job(2, 2, minimum=2)
    story.commit(1, {0: 0, 1: 0})
    story.status("RELEASING", 1, {0: 0})
    too_much = story.commit(2, {}, nominate={0: 0, 1: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(too_much))


def test_allocation_into_a_nomination_of_another(tmp_path: Path) -> None:
    story = Story()
    for jid in (1, 2, 3):
        story.job(jid, 1)
    story.commit(1, {0: 0})
    story.commit(2, {}, nominate={0: 0})
    taken = story.commit(3, {0: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(taken))


@pytest.mark.parametrize("end", ["displaced", "lapsed", "job_gone", "changed", "replaced"])
def test_ended_nominations_make_room(tmp_path: Path, end: str) -> None:
    story = Story()
    for jid in (1, 2, 3):
        story.job(jid, 1)
    story.commit(1, {0: 0})
    story.commit(2, {}, nominate={0: 0})
    match end:
        case "lapsed" | "job_gone":
            story.ledger(end, jids=[2])
        case "changed":
            story.job(2, 1, spec=2)
        case "replaced":
            story.commit(2, {0: 3})
        case _:
            pass  # displaced: by the statement itself
    story.commit(3, {0: 0}, dropped=[2] if end == "displaced" else [])
    story.acts("bind", 3, {0: 0})
    assert story.check(tmp_path).ok


def test_queue_over_its_capability(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 7)
    story.commit(1, {i: i // 2 for i in range(6)})
    seventh = story.commit(1, {6: 3})
    assert the_first(story, tmp_path) == (2, story.line_of(seventh))


def test_ancestor_over_its_capability(tmp_path: Path) -> None:
    story = Story()
    root = {"qid": 0, "name": "q0", "parent": -1, "capability": [[GPU, 2000]]}
    story.ledger("queue", queues=[root])
    story.job(1, 3)
    story.commit(1, {0: 0, 1: 1})
    third = story.commit(1, {2: 2})
    report = story.check(tmp_path)
    assert report.first is not None
    assert (report.first.promise, report.first.line) == (2, story.line_of(third))
    assert "queue 0" in report.first.message


def test_totals_beyond_53_bits(tmp_path: Path) -> None:
    big = 2**53 - 1
    story = Story()
    huge = {"cid": 7, "requests": [[1, big, 0]], "best_effort": False}
    story.ledger("class", classes=[huge])
    nodes = [
        {"row": row, "name": f"n{row}", "allocatable": [[1, big]], "spec": 1} for row in (4, 5)
    ]
    story.ledger("node", nodes=nodes)
    queue = {"qid": 5, "name": "q5", "parent": -1, "capability": [[1, 2 * big - 1]]}
    story.ledger("queue", queues=[queue])
    story.job(1, 2, roles=[[7, 0, 2, 0]], qid=5)
    over_by_one = story.commit(1, {0: 4, 1: 5}, cid=7)
    assert the_first(story, tmp_path) == (2, story.line_of(over_by_one))


# --- promise 3 --------------------------------------------------------------------------------


def test_gang_in_part(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3, minimum=3)
    part = story.commit(1, {0: 0, 1: 1})
    assert the_first(story, tmp_path) == (3, story.line_of(part))
    assert story.check(tmp_path).summary.gangs_partly_bound == 1


def test_tail_does_not_make_up_for_the_core(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3, minimum=3)
    part = story.commit(1, {0: 0, 1: 1, 2: 1}, tail=1)
    assert the_first(story, tmp_path) == (3, story.line_of(part))


def test_role_minimum_and_its_parent(tmp_path: Path) -> None:
    roles = [[GPU_TASK, 0, 2, 1], [GPU_TASK, 2, 2, 2]]
    groups = [[-1, 3], [0, 2], [0, 1]]
    story = Story()
    story.job(1, 4, groups=groups, roles=roles)
    role_is_whole = story.commit(1, {0: 0, 1: 0})
    report = story.check(tmp_path)
    assert report.first is not None
    assert (report.first.promise, report.first.line) == (3, story.line_of(role_is_whole))
    assert "group 0" in report.first.message


def test_gang_that_lost_members_may_grow_again(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 4, minimum=3)
    story.commit(1, {0: 0, 1: 0, 2: 1})
    story.acts("bind", 1, {0: 0, 1: 0, 2: 1})
    story.status("BOUND", 1, {0: 0, 1: 0, 2: 1})
    story.acts("failed", 1, {0: 0, 1: 0})
    story.status("FAILED", 1, {0: 0, 1: 0})  # 1 held of 3: a loss from outside
    story.commit(1, {3: 2})
    story.acts("bind", 1, {3: 2})
    assert story.check(tmp_path).ok


def test_succeeded_members_stay_held(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 4, minimum=3)
    story.commit(1, {0: 0, 1: 0, 2: 1})
    story.run(1, {0: 0, 1: 0, 2: 1})
    story.commit(1, {3: 0})
    story.run(1, {3: 0})
    assert story.check(tmp_path, closed=True).ok


def test_pending_best_effort_members_count(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3, minimum=3, roles=[[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 1, 0]])
    story.commit(1, {0: 0, 1: 0})
    story.acts("bind", 1, {0: 0, 1: 0})
    assert story.check(tmp_path).ok


# --- promise 5 --------------------------------------------------------------------------------


def test_request_that_takes_effect_twice(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    first = story.commit(1, {0: 0})
    second = story.commit(1, {1: 0})
    second["seq"] = first["seq"]
    assert the_first(story, tmp_path) == (5, story.line_of(second))


def test_same_sequence_of_another_epoch_is_another_request(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    first = story.commit(1, {0: 0})
    second = story.commit(1, {1: 0})
    second["seq"], second["epoch"] = first["seq"], "2:def"
    story.acts("bind", 1, {0: 0, 1: 0})
    assert story.check(tmp_path).ok


def test_log_entry_told_twice(tmp_path: Path) -> None:
    story = Story()
    entry = story.ledger("refusal", shard="0", refused=[])
    story.events.append(dict(entry))
    assert the_first(story, tmp_path) == (5, len(story.events))


def test_events_of_one_entry_belong_together(tmp_path: Path) -> None:
    story = Story()
    first = story.ledger("object", keys=["a"], gone=[False])
    story.events.append(dict(first))
    first["more"] = 1
    assert story.check(tmp_path).ok


# --- promise 6 --------------------------------------------------------------------------------


def test_bind_without_commit(tmp_path: Path) -> None:
    story = good_story()
    story.job(4, 1)
    stray = story.acts("bind", 4, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(stray))


def test_bind_to_another_node_than_committed(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    stray = story.acts("bind", 1, {0: 1})
    assert the_first(story, tmp_path) == (6, story.line_of(stray))


def test_lost_commit_event(tmp_path: Path) -> None:
    story = good_story()
    story.events = [e for e in story.events if not (e["ev"] == "commit" and e["shard"] == "1")]
    bind = next(e for e in story.events if e["ev"] == "bind" and e["tasks"][0] == "2.0")
    assert the_first(story, tmp_path) == (6, story.line_of(bind))


@pytest.mark.parametrize("ev", ["start", "releasing", "succeeded", "failed"])
def test_report_of_a_task_that_was_never_bound(tmp_path: Path, ev: str) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    event = story.acts(ev, 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(event))


def test_two_ends(tmp_path: Path) -> None:
    story = good_story()
    again = story.acts("succeeded", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(again))


def test_ledger_finished_what_the_cluster_did_not(tmp_path: Path) -> None:
    story = good_story()
    story.events = [
        e for e in story.events if not (e["ev"] == "succeeded" and e["tasks"][0] == "2.0")
    ]
    finished = [e for e in story.events if e["ev"] == "status" and e["items"][0][1] == 2][-1]
    assert the_first(story, tmp_path) == (6, story.line_of(finished))


def test_ledger_gave_up_what_the_cluster_runs(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    given_up = story.status("PENDING", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(given_up))


def test_state_that_cannot_follow(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 1)
    status = story.status("BOUND", 1, {0: 0})
    assert the_first(story, tmp_path) == (6, story.line_of(status))


def test_commit_of_what_was_never_submitted(tmp_path: Path) -> None:
    for jid, tix in ((9, 0), (1, 5)):
        story = Story()
        story.job(1, 1)
        commit = story.commit(jid, {tix: 0})
        assert the_first(story, tmp_path) == (6, story.line_of(commit))


def test_open_run_may_stop_anywhere_a_closed_one_may_not(tmp_path: Path) -> None:
    story = Story()
    submitted = story.job(1, 2)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    assert story.check(tmp_path).ok
    assert the_first(story, tmp_path, closed=True) == (6, story.line_of(submitted))
    first = story.check(tmp_path, closed=True).first
    assert first is not None
    assert "2 submitted = 1 pending + 1 in flight + 0 held" in first.message


def test_deleted_tasks_need_not_finish(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0})
    story.acts("bind", 1, {0: 0})
    story.ledger("job_gone", jids=[1])
    story.acts("releasing", 1, {0: 0})
    story.acts("failed", 1, {0: 0})
    story.status("FAILED", 1, {0: 0})
    story.ledger("job_forgotten", jids=[1])
    assert story.check(tmp_path, closed=True).ok


def test_a_deleted_best_effort_member_counts_for_no_gang(tmp_path: Path) -> None:
    """With it the gang had its minimum, without it the commit leaves the gang in the middle."""
    for deleted in (False, True):
        story = Story()
        roles = [[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 1, 0]]
        story.job(1, 3, minimum=3, roles=roles)
        if deleted:
            story.status("FAILED", 1, {2: 0})
            story.job(1, 3, minimum=3, roles=roles, spec=2)
        story.commit(1, {0: 0, 1: 0})
        (tmp_path / str(deleted)).mkdir()
        report = story.check(tmp_path / str(deleted))
        assert report.broken == ({3: 1} if deleted else {}), deleted


def test_a_deleted_job_is_forgotten_in_the_end(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_gone", jids=[1])
    assert "never forgotten" in _only(story.check(tmp_path, closed=True))


def test_nothing_that_holds_a_node_is_forgotten(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0, 1: 0})
    story.ledger("job_gone", jids=[1])
    story.ledger("job_forgotten", jids=[1])
    assert "was forgotten, but task 0 is BINDING" in _only(story.check(tmp_path))


def test_a_job_that_stays_is_not_forgotten(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_forgotten", jids=[1])
    assert "was forgotten, but not deleted" in _only(story.check(tmp_path))


def test_a_deleted_job_gets_no_place(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.ledger("job_gone", jids=[1])
    story.commit(1, {0: 0, 1: 0})
    assert "committed after its deletion" in _only(story.check(tmp_path))


def test_a_queue_that_is_in_use_does_not_go(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 2)
    story.commit(1, {0: 0, 1: 0})
    story.ledger("queue_gone", qids=[1])
    assert "queue 1 is gone" in _only(story.check(tmp_path))


def _only(report: CheckReport) -> str:
    """The message of the one violation there is."""
    (violation,) = report.violations
    assert violation.promise == 6
    return violation.message


def test_every_cut_of_a_good_history_is_good(tmp_path: Path) -> None:
    """A history ends where its run was killed."""
    story = good_story()
    events = story.events
    for end in range(len(events) + 1):
        story.events = events[:end]
        assert story.check(tmp_path).violations == ()


# --- the file ---------------------------------------------------------------------------------


def test_torn_last_line_is_told_and_left_out(tmp_path: Path) -> None:
    path = good_story().write(tmp_path / "history.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"t":1,"src":"led')
    report = check(path)
    assert report.torn
    assert report.ok
    assert report.events == whole.count(b"\n")


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1,"src":"cluster","ev":"bind","tasks":["x"],"nodes":["n"],"uids":["u"],"answers":["OK"]}',
        "not json",
        "[]",
        "{}",
        '{"src":"ledger","ev":"commit","id":"1-1"}',
        '{"src":"x","ev":"y"}',
    ],
)
def test_lines_that_are_no_events_are_named(tmp_path: Path, line: str) -> None:
    path = Story().write(tmp_path / "history.jsonl")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(HistoryError, match="line 6 is not an event"):
        check(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="nowhere"):
        check(tmp_path / "nowhere")


def test_many_tasks(tmp_path: Path) -> None:
    """Large enough to hang where anything is done per task and per task again."""
    size, at_once = 30_000, 500
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        story = Story()
        queue = {"qid": 1, "name": "q1", "parent": 0, "capability": None}
        story.ledger("queue", queues=[queue])
        node = {
            "row": 9,
            "name": "n9",
            "allocatable": [[PODS, size], [GPU, size * 1000]],
            "spec": 1,
        }
        story.ledger("node", nodes=[node])
        for first in range(0, size, at_once):
            jids = range(first, first + at_once)
            jobs = [story.job(jid, 1)["jobs"][0] for jid in jids]
            del story.events[-at_once:]
            story.ledger("job", jobs=jobs)
            statements = [story.commit(jid, {0: 9})["statements"][0] for jid in jids]
            del story.events[-at_once:]
            story.ledger("commit", writer="0", shard="0", statements=statements)
            tasks = [f"{jid}.0" for jid in jids]
            for ev, state in (
                ("bind", "BOUND"),
                ("start", "RUNNING"),
                ("releasing", "RELEASING"),
                ("succeeded", "SUCCEEDED"),
            ):
                answers = ["OK"] * at_once if ev == "bind" else []
                story.cluster(ev, tasks, ["n9"] * at_once, *answers)
                story.ledger("status", items=[[state, jid, [0], [9]] for jid in jids])
            file.writelines(json.dumps(event) + "\n" for event in story.events)
            story.events.clear()
    report = check(path, closed=True)
    assert report.ok
    assert report.summary.tasks_finished == size


def test_checker_imports_nothing_of_what_it_checks() -> None:
    code = (
        "import sys, coordinator.checker\n"
        "parts = ('shared', 'shard_worker', 'coordinator.')\n"
        "print([m for m in sys.modules if m.startswith(parts)\n"
        "       and not m.startswith('coordinator.checker')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
