"""The checker on promises 2 and 3: what nodes and queues hold, and gangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laboratory.checker.story import (
    BEST_EFFORT,
    GPU,
    GPU_TASK,
    PODS,
    Story,
    the_first,
)

# --- promise 2 --------------------------------------------------------------------------------


def test_node_over_its_allocatable(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3)
    story.commit(1, {0: 0, 1: 0})
    third = story.commit(1, {2: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(third))


def test_usage_by_foreign_pods_counts_towards_allocatable(tmp_path: Path) -> None:
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


def ported(story: Story) -> None:
    things = [["port/TCP/80", [1], [1]]]
    reports = {"cid": 7, "requests": [[PODS, 1, 0]], "best_effort": False, "things": things}
    story.ledger("class", classes=[reports])


def test_a_host_port_twice_on_a_node(tmp_path: Path) -> None:
    story = Story()
    ported(story)
    story.job(1, 4, roles=[[7, 0, 4, 0]])
    story.commit(1, {0: 0, 1: 1}, cid=7)
    story.status("RUNNING", 1, {0: 0})
    story.status("SUCCEEDED", 1, {0: 0})
    story.commit(1, {2: 0}, cid=7)
    assert story.check(tmp_path).ok
    again = story.commit(1, {3: 0}, cid=7)
    assert the_first(story, tmp_path) == (2, story.line_of(again))


def test_a_host_port_that_is_promised_twice(tmp_path: Path) -> None:
    story = Story()
    ported(story)
    for jid in (1, 2, 3):
        story.job(jid, 1, roles=[[7, 0, 1, 0]])
    story.commit(1, {0: 0}, cid=7)
    story.status("RELEASING", 1, {0: 0})
    story.commit(2, {}, nominate={0: 0}, cid=7)
    assert story.check(tmp_path).ok
    again = story.commit(3, {}, nominate={0: 0}, cid=7)
    assert the_first(story, tmp_path) == (2, story.line_of(again))


def test_a_host_port_of_somebody_else(tmp_path: Path) -> None:
    story = Story()
    ported(story)
    story.job(1, 2, roles=[[7, 0, 2, 0]])
    reports = {"row": 0, "used": [], "things": [["port/TCP/80", [1]]]}
    story.ledger("observe", nodes=[reports])
    story.commit(1, {0: 1}, cid=7)
    assert story.check(tmp_path).ok
    line_commit = story.commit(1, {1: 0}, cid=7)
    assert the_first(story, tmp_path) == (2, story.line_of(line_commit))


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
    event = story.commit(3, {0: 0})
    assert the_first(story, tmp_path) == (2, story.line_of(event))


@pytest.mark.parametrize("end", ["displaced", "expired", "job_gone", "changed", "replaced"])
def test_ended_nominations_make_room(tmp_path: Path, end: str) -> None:
    story = Story()
    for jid in (1, 2, 3):
        story.job(jid, 1, priority=jid)
    story.commit(1, {0: 0})
    story.commit(2, {}, nominate={0: 0})
    match end:
        case "expired" | "job_gone":
            story.ledger(end, jids=[2])
        case "changed":
            story.job(2, 1, spec=2)
        case "replaced":
            story.commit(2, {0: 3}, dropped=[2])
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


@pytest.mark.parametrize(("seconds", "told"), [(100.0, False), (130.0, True)])
@pytest.mark.parametrize("end", ["repaired", "released", "never"])
def test_a_gang_that_a_refused_bind_left_short_is_seen_to_in_time(
    tmp_path: Path, seconds: float, told: bool, end: str
) -> None:
    story = Story()
    story.job(1, 3, minimum=3)
    story.commit(1, {0: 0, 1: 1, 2: 2})
    story.status("BOUND", 1, {0: 0, 1: 1})
    story.status("PENDING", 1, {2: 2})
    line = len(story.events)
    story.t += seconds
    if end == "repaired":
        story.commit(1, {2: 3})
    elif end == "released":
        story.status("FAILED", 1, {0: 0, 1: 1})
    else:
        story.ledger("object", keys=[], gone=[])
    report = story.check(tmp_path)
    assert [(v.promise, v.line) for v in report.violations] == [(3, line)] * told


def test_a_deleted_gang_needs_no_repair(tmp_path: Path) -> None:
    story = Story()
    story.job(1, 3, minimum=3)
    story.commit(1, {0: 0, 1: 1, 2: 2})
    story.status("PENDING", 1, {2: 2})
    story.ledger("job_gone", jids=[1])
    story.t += 1000.0
    story.ledger("epoch")
    assert story.check(tmp_path).ok
