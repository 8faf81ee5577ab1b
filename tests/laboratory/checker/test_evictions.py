"""The checker and evictions: a history that is right, and each way in which one may be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.laboratory.checker.story import (
    BEST_EFFORT,
    CPU,
    GPU,
    GPU_TASK,
    Story,
    the_first,
)

GANG, GUARANTEE = 1, 2
BOTH = {0: 0, 1: 0}


def evicting(
    story: Story,
    victims: dict[int, int],
    *,
    by: int = 2,
    jid: int = 1,
    guards: int = 0,
    nominate: dict[int, int] | None = None,
    spec: int = 1,
) -> dict[str, Any]:
    event = story.commit(by, {}, nominate=nominate)
    event["statements"][0] |= {
        "evict": [[jid, spec, GPU_TASK, 0, list(victims), list(victims.values()), guards]],
        "reason": "preempt: priority",
    }
    return event


def running(minimum: int = 1) -> Story:
    """A job fills node 0 with two tasks; another wants a place there."""
    story = Story()
    story.job(1, 2, minimum=minimum)
    story.job(2, 1)
    story.commit(1, BOTH)
    for ev, state in (("bind", "BOUND"), ("start", "RUNNING")):
        story.acts(ev, 1, BOTH)
        story.status(state, 1, BOTH)
    return story


def again(story: Story, row: int, incarnation: int = 1, ev: str = "bind") -> dict[str, Any]:
    """Another incarnation of task 1.0 on a node."""
    event = story.cluster(ev, ["1.0"], [f"n{row}"], *(["OK"] if ev == "bind" else []))
    event["uids"] = [f"uid-1~~{incarnation}"]
    return event


def evicted(story: Story) -> None:
    """Task 0 leaves for job 2, ends, and is pending again."""
    evicting(story, {0: 0}, guards=GANG, nominate={0: 0})
    story.cluster("delete", ["1.0"], [])
    story.acts("releasing", 1, {0: 0})
    story.acts("failed", 1, {0: 0})
    story.status("PENDING", 1, {0: 0})


def come_back(story: Story) -> None:
    """Both jobs finish: the winner on node 0, the victim on node 1."""
    story.commit(2, {0: 0}, dropped=[2])
    story.run(2, {0: 0})
    story.commit(1, {0: 1})
    for ev, state in (("bind", "BOUND"), ("start", "RUNNING"), ("releasing", "RELEASING")):
        again(story, 1, ev=ev)
        story.status(state, 1, {0: 1})
    again(story, 1, ev="succeeded")
    story.status("SUCCEEDED", 1, {0: 1})
    for ev, state in (("releasing", "RELEASING"), ("succeeded", "SUCCEEDED")):
        story.acts(ev, 1, {1: 0})
        story.status(state, 1, {1: 0})


def test_a_victim_that_comes_back_and_finishes(tmp_path: Path) -> None:
    story = running()
    evicted(story)
    come_back(story)
    report = story.check(tmp_path, closed=True)
    assert report.violations == ()
    summary = report.summary
    assert (summary.tasks_bound, summary.tasks_finished, summary.tasks_evicted) == (3, 3, 1)


def test_a_place_is_promised_only_with_the_eviction(tmp_path: Path) -> None:
    story = running()
    line = story.line_of(story.commit(2, {}, nominate={0: 0}))
    assert the_first(story, tmp_path) == (2, line)


@pytest.mark.parametrize(
    ("victims", "more"),
    [({0: 1}, {}), ({5: 0}, {}), ({0: 0}, {"jid": 9}), ({0: 0}, {"spec": 2})],
    ids=["elsewhere", "unknown", "job", "version"],
)
def test_only_running_pods_of_the_node_are_evicted(
    tmp_path: Path, victims: dict[int, int], more: dict[str, int]
) -> None:
    story = running()
    line = story.line_of(evicting(story, victims, **more))  # type: ignore[arg-type]
    assert the_first(story, tmp_path) == (6, line)


def test_nothing_is_evicted_twice_nor_of_a_job_that_is_gone(tmp_path: Path) -> None:
    story = running()
    evicting(story, {0: 0})
    line = story.line_of(evicting(story, {0: 0}))
    assert the_first(story, tmp_path) == (6, line)
    story = running()
    story.ledger("job_gone", jids=[1])
    line = story.line_of(evicting(story, {0: 0}))
    assert the_first(story, tmp_path) == (6, line)


def test_a_guarded_gang_is_not_left_short(tmp_path: Path) -> None:
    story = running(minimum=2)
    evicting(story, {0: 0})
    assert story.check(tmp_path).ok  # nobody promised to keep it whole
    story = running(minimum=2)
    evicting(story, BOTH, guards=GANG)
    assert story.check(tmp_path).ok
    story = running(minimum=2)
    line = story.line_of(evicting(story, {0: 0}, guards=GANG))
    assert the_first(story, tmp_path) == (3, line)


@pytest.mark.parametrize("which", [0, 1])
def test_each_victim_is_held_to_its_own_guards(tmp_path: Path, which: int) -> None:
    """Two gangs lose a member each in one statement, which guards one of them."""
    story = running(minimum=2)
    story.job(3, 2, minimum=2)
    story.commit(3, {0: 1, 1: 1})
    for ev, state in (("bind", "BOUND"), ("start", "RUNNING")):
        story.acts(ev, 3, {0: 1, 1: 1})
        story.status(state, 3, {0: 1, 1: 1})
    event = evicting(story, {0: 0})
    runs = event["statements"][0]["evict"]
    runs.append([3, 1, GPU_TASK, 0, [0], [1], 0])
    line = story.line_of(event)
    assert story.check(tmp_path).ok
    runs[which][6] = GANG
    assert the_first(story, tmp_path) == (3, line)
    runs[1 - which][4:6] = [0, 1], [1 - which] * 2
    runs[which][4:6] = [0, 1], [which] * 2
    assert story.check(tmp_path).ok


@pytest.mark.parametrize("seconds", [0.0, 3.0], ids=["new", "old"])
def test_pods_of_a_new_job_are_expected_a_moment_after(tmp_path: Path, seconds: float) -> None:
    """Seed 90272: eight pods were submitted 48 ms before an eviction, and with them none of those
    that ran was allowed to go. The worker's turn had begun without them."""
    story = running()
    policy = {"actions": ["preempt"], "tiers": [[{"name": "pdb"}]]}
    story.ledger("policy", policy=policy)
    one = {"namespace": "default", "name": "one", "selector": [], "max_unavailable": "1"}
    story.ledger("object", keys=["budget/one"], gone=[False], values={"budget/one": one})
    story.job(3, 8)
    story.t += seconds
    event = evicting(story, {0: 0}, nominate={0: 0})
    event["statements"][0]["reason"] = "preempt (pdb): for default/job-2"
    broken = story.check(tmp_path).broken
    assert (9 in broken) is (seconds > 0)


@pytest.mark.parametrize("state", ["RELEASING", "SUCCEEDED"])
@pytest.mark.parametrize("seconds", [0.1, 3.0], ids=["just now", "long ago"])
def test_pods_that_ended_since_the_turn_began_count_as_healthy(
    tmp_path: Path, seconds: float, state: str
) -> None:
    """Seed 140011: two pods of a budget ended by themselves 9 ms before a third was evicted, which
    a worker had decided while they ran."""
    story = running()
    story.ledger("policy", policy={"actions": ["preempt"], "tiers": [[{"name": "pdb"}]]})
    one = {"namespace": "default", "name": "one", "selector": [], "min_available": "1"}
    story.ledger("object", keys=["budget/one"], gone=[False], values={"budget/one": one})
    story.status(state, 1, {1: 0})
    story.t += seconds
    event = evicting(story, {0: 0}, nominate={0: 0})
    event["statements"][0]["reason"] = "preempt (pdb): for default/job-2"
    assert (9 in story.check(tmp_path).broken) is (seconds > 1)


@pytest.mark.parametrize("seconds", [0.0, 3.0], ids=["just now", "long ago"])
def test_waiting_pods_of_a_group_may_have_been_deleted_with_its_last_change(
    tmp_path: Path, seconds: float
) -> None:
    """Seed 161329: a pod that waited was deleted, and the ledger heard of it 2 ms after a drain."""
    story = running()
    story.ledger("policy", policy={"actions": ["preempt"], "tiers": [[{"name": "pdb"}]]})
    one = {"namespace": "default", "name": "one", "selector": [], "max_unavailable": "2"}
    story.ledger("object", keys=["budget/one"], gone=[False], values={"budget/one": one})
    group = story.job(3, 1)["jobs"][0]
    story.t += 10.0
    story.ledger("job", jobs=[group | {"spec": 2, "named": True}])
    story.t += seconds
    event = evicting(story, {0: 0}, by=1)
    event["statements"][0]["reason"] = "evict: for drain"
    assert (9 in story.check(tmp_path).broken) is (seconds > 0)


@pytest.mark.parametrize("most", [2, 3])
def test_a_victim_counts_once_whichever_policies_are_asked(tmp_path: Path, most: int) -> None:
    """Seed 181482: the policy had been stored anew, and both were asked about each victim."""
    story = running()
    policy = {"actions": ["preempt"], "tiers": [[{"name": "pdb"}]]}
    story.ledger("policy", policy=policy)
    one = {"namespace": "default", "name": "one", "selector": [], "max_unavailable": str(most)}
    story.ledger("object", keys=["budget/one"], gone=[False], values={"budget/one": one})
    story.t += 3.0
    story.ledger("policy", policy=policy)
    event = evicting(story, BOTH, nominate={0: 0})
    event["statements"][0]["reason"] = "preempt (pdb): for default/job-2"
    # Job 2 waits, which is one of the budget's that is not available.
    assert (9 in story.check(tmp_path).broken) is (most < 3)


@pytest.mark.parametrize("seconds", [0.0, 3.0], ids=["just now", "long ago"])
def test_a_count_of_others_holds_from_when_a_turn_began(tmp_path: Path, seconds: float) -> None:
    """The disruption controller counts anew while a worker decides."""
    story = running()
    story.ledger("policy", policy={"actions": ["preempt"], "tiers": [[{"name": "pdb"}]]})
    one = {"namespace": "default", "name": "one", "selector": [], "min_available": "1"}
    for allowed in (1, 0):
        counted = {"budget/one": one | {"allowed": allowed}}
        story.ledger("object", keys=["budget/one"], gone=[False], values=counted)
    story.t += seconds
    event = evicting(story, {0: 0}, nominate={0: 0})
    event["statements"][0]["reason"] = "preempt (pdb): for default/job-2"
    assert (9 in story.check(tmp_path).broken) is (seconds > 0)


@pytest.mark.parametrize("leaving", ["evicted", "by itself"])
def test_a_guarded_queue_keeps_what_is_guaranteed(tmp_path: Path, leaving: str) -> None:
    story = running()
    queue = {"qid": 1, "name": "q1", "parent": 0, "capability": None}
    story.ledger("queue", queues=[queue | {"guarantee": [[GPU, 1000]]}])
    if leaving == "evicted":
        evicting(story, {0: 0}, guards=GUARANTEE)
    else:
        story.status("RELEASING", 1, {0: 0})
    assert story.check(tmp_path).ok
    line = story.line_of(evicting(story, {1: 0}, guards=GUARANTEE))
    assert the_first(story, tmp_path) == (2, line)


@pytest.mark.parametrize(
    ("plugin", "slot", "allowed"),
    [("proportion", CPU, True), ("proportion", GPU, False), ("capacity", CPU, False)],
)
def test_a_queue_below_its_guarantee_protects_tasks_that_use_it(
    tmp_path: Path, plugin: str, slot: int, allowed: bool
) -> None:
    """proportion asks of what the victim uses alone, capacity of everything (seed 160213)."""
    story = running()
    story.ledger("policy", policy={"actions": ["reclaim"], "tiers": [[{"name": plugin}]]})
    queue = {"qid": 1, "name": "q1", "parent": 0, "capability": None, "reclaimable": True}
    others = {"qid": 2, "name": "q2", "parent": 0, "capability": None}
    story.ledger("queue", queues=[queue | {"guarantee": [[slot, 9000]]}, others])
    story.job(3, 1, qid=2)
    event = evicting(story, {0: 0}, by=3, nominate={0: 0})
    event["statements"][0]["reason"] = f"reclaim ({plugin}): for default/job-3"
    assert (2 not in story.check(tmp_path).broken) is allowed


def test_a_task_that_left_by_itself_never_becomes_pending(tmp_path: Path) -> None:
    story = running()
    story.status("RELEASING", 1, {0: 0})
    line = story.line_of(story.status("PENDING", 1, {0: 0}))
    assert the_first(story, tmp_path) == (6, line)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "lives"])
def test_an_end_may_stand_behind_the_next_bind_to_the_same_node(
    tmp_path: Path, ended: bool
) -> None:
    """The cluster is in the file at once, the ledger's log when it was read."""
    story = running()
    evicting(story, {0: 0})
    if ended:
        story.acts("failed", 1, {0: 0})
        again(story, 0)
    story.status("PENDING", 1, {0: 0})
    story.commit(1, {0: 0})
    assert (6 in story.check(tmp_path).broken) is not ended


def test_members_that_were_evicted_are_counted_once(tmp_path: Path) -> None:
    """Both went. One ends well and is a member again; then one more makes a gang, or does not."""
    story = running(minimum=2)
    evicting(story, BOTH, guards=GANG)
    story.acts("succeeded", 1, {0: 0})
    story.status("SUCCEEDED", 1, {0: 0})
    story.acts("failed", 1, {1: 0})
    story.status("PENDING", 1, {1: 0})
    story.commit(1, {1: 1})
    assert story.check(tmp_path).broken.get(3) is None
    story = running(minimum=2)
    evicting(story, BOTH, guards=GANG)
    story.acts("failed", 1, BOTH)
    story.status("PENDING", 1, BOTH)
    line = story.line_of(story.commit(1, {0: 1}))
    assert the_first(story, tmp_path) == (3, line)


def test_two_incarnations_never_live_at_once(tmp_path: Path) -> None:
    story = running()
    evicting(story, {0: 0})
    line = story.line_of(again(story, 1))
    assert the_first(story, tmp_path) == (1, line)


def test_an_incarnation_never_comes_after_a_later_one(tmp_path: Path) -> None:
    story = running()
    evicted(story)
    story.commit(1, {0: 1})
    again(story, 1, incarnation=2)
    again(story, 1, incarnation=2, ev="failed")
    line = story.line_of(again(story, 1, incarnation=1))
    assert the_first(story, tmp_path) == (1, line)


def test_pending_after_success_or_without_an_end_is_a_violation(tmp_path: Path) -> None:
    for end in ("succeeded", ""):
        story = running()
        evicting(story, {0: 0})
        if end:
            story.acts(end, 1, {0: 0})
        story.status("PENDING", 1, {0: 0})
        assert the_first(story, tmp_path)[0] == 6


def test_a_member_that_asks_for_nothing_counts_still_when_its_bind_was_refused(
    tmp_path: Path,
) -> None:
    story = Story()
    story.job(1, 3, minimum=2, roles=[[GPU_TASK, 0, 2, 0], [BEST_EFFORT, 2, 1, 0]])
    story.job(2, 1)
    story.commit(1, BOTH)
    story.acts("bind", 1, BOTH)
    story.status("BOUND", 1, BOTH)
    story.commit(1, {2: 0}, cid=BEST_EFFORT)
    story.cluster("bind", ["1.2"], ["n0"], "REFUSED")
    story.status("PENDING", 1, {2: 0})
    story.commit(1, {2: 1}, cid=BEST_EFFORT)
    evicting(story, {0: 0}, guards=GANG, nominate={0: 0})
    assert story.check(tmp_path).ok
    evicting(story, {1: 0}, guards=GANG, nominate={0: 0})
    assert not story.check(tmp_path).ok
