"""The checker on rules between pods (promise 9): affinity to pods that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laboratory.checker.story import BEST_EFFORT, PODS, Story, the_first

BESIDE_DB = 3
"""Class: one pod, on a node with a pod of app=db."""
LONER = 4
"""Class: one pod, in no zone with a pod of app=db."""
HOST = "kubernetes.io/hostname"
FACTS = {"facts": {"labels": {"zone": "a"}}}


@pytest.fixture
def story() -> Story:
    """Job 1 is a db without rules, job 2 two dbs that want to be beside a db."""
    story = Story()
    tiers = [[{"name": "predicates"}]]
    story.ledger("policy", policy={"actions": ["allocate", "backfill"], "tiers": tiers})
    for row in range(4):
        node = {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10]], "spec": 2}
        story.ledger("node", nodes=[node | {"facts": {"labels": {HOST: f"n{row}"}}}])
    near = {"topology_key": HOST, "selector": [{"key": "app", "operator": "In", "values": ["db"]}]}
    task_class = {
        "cid": BESIDE_DB,
        "requests": [[PODS, 1, 0]],
        "best_effort": True,
        "rules": "near",
    }
    story.ledger("class", classes=[task_class], rules={"near": {"pod_terms": [near]}})
    for jid, cid, count in ((1, BEST_EFFORT, 1), (2, BESIDE_DB, 2)):
        facts = {"labels": {"app": "db"}}
        role = [cid, 0, count, 0, facts]
        job = {"jid": jid, "qid": 1, "spec": 1, "key": f"default/job-{jid}", "uid": f"uid-{jid}"}
        story.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [role]}])
    return story


def test_beside_a_pod_that_is_there(story: Story, tmp_path: Path) -> None:
    story.commit(1, {0: 0}, cid=BEST_EFFORT)
    story.commit(2, {0: 0}, cid=BESIDE_DB)
    assert story.check(tmp_path).ok


def test_elsewhere_while_one_is_there(story: Story, tmp_path: Path) -> None:
    story.commit(1, {0: 0}, cid=BEST_EFFORT)
    wrong = story.commit(2, {0: 1}, cid=BESIDE_DB)
    assert the_first(story, tmp_path) == (9, story.line_of(wrong))


@pytest.mark.parametrize("row", [0, 3])
def test_after_the_last_one_has_left(story: Story, row: int, tmp_path: Path) -> None:
    """The worker may know that it has left, then this is the first of a group that selects itself;
    or not yet, then this is beside it."""
    story.commit(1, {0: 0}, cid=BEST_EFFORT)
    story.run(1, {0: 0})
    story.commit(2, {0: row}, cid=BESIDE_DB)
    assert story.check(tmp_path).ok


def test_the_second_of_a_group_is_beside_the_first(story: Story, tmp_path: Path) -> None:
    story.commit(2, {0: 1}, cid=BESIDE_DB)
    wrong = story.commit(2, {1: 2}, cid=BESIDE_DB)
    assert the_first(story, tmp_path) == (9, story.line_of(wrong))


@pytest.mark.parametrize(
    ("history", "in_domain"),
    [("there", True), ("deleted", False), ("back just now", False), ("back long ago", True)],
)
def test_a_deleted_node_is_in_no_domain(
    story: Story, history: str, in_domain: bool, tmp_path: Path
) -> None:
    """Pods that still run on a deleted node keep no other away: the domain that the node was in had
    a pod with anti-affinity, and the checker counted it on (seed 70766). A worker may not know yet
    that a node is back, with the pod (seed 150062)."""
    for row in (0, 1):
        node = {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10]], "spec": 3}
        story.ledger("node", nodes=[node | FACTS])
    db = [{"key": "app", "operator": "In", "values": ["db"]}]
    term = {"topology_key": "zone", "selector": db, "anti": True}
    task_class = {"cid": LONER, "requests": [[PODS, 1, 0]], "best_effort": True, "rules": "alone"}
    story.ledger("class", classes=[task_class], rules={"alone": {"pod_terms": [term]}})
    job = {"jid": 3, "qid": 1, "spec": 1, "key": "default/job-3", "uid": "uid-3"}
    story.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [[LONER, 0, 1, 0]]}])
    story.commit(3, {0: 0}, cid=LONER)
    if history != "there":
        story.ledger("node_gone", rows=[0])
    if history.startswith("back"):
        story.ledger("node", nodes=[node | {"row": 0, "name": "n0", "spec": 4} | FACTS])
    if history == "back long ago":
        story.t += 31.0
    placed = story.commit(1, {0: 1}, cid=BEST_EFFORT)
    if in_domain:
        assert the_first(story, tmp_path) == (9, story.line_of(placed))
    else:
        assert story.check(tmp_path).ok


@pytest.mark.parametrize(("seconds", "known"), [(0.0, False), (31.0, True)])
def test_a_spread_counts_a_domain_that_is_back_once_workers_know(
    story: Story, seconds: float, known: bool, tmp_path: Path
) -> None:
    """One node a zone, and the empty one comes back: it makes the second pod of another zone one
    too many."""
    nodes = [
        {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10]], "spec": 3}
        | {"facts": {"labels": {"zone": f"z{row}"}}}
        for row in range(2)
    ]
    story.ledger("node", nodes=nodes)
    app = [{"key": "app", "operator": "In", "values": ["even"]}]
    spread = {"topology_key": "zone", "selector": app, "max_skew": 1}
    task_class = {"cid": LONER, "requests": [[PODS, 1, 0]], "best_effort": True, "rules": "even"}
    story.ledger("class", classes=[task_class], rules={"even": {"spreads": [spread]}})
    job = {"jid": 3, "qid": 1, "spec": 1, "key": "default/job-3", "uid": "uid-3"}
    role = [LONER, 0, 2, 0, {"labels": {"app": "even"}}]
    story.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [role]}])
    story.commit(3, {0: 0}, cid=LONER)
    story.ledger("node_gone", rows=[1])
    story.ledger("node", nodes=[nodes[1] | {"spec": 4}])
    story.t += seconds
    placed = story.commit(3, {1: 0}, cid=LONER)
    if known:
        assert the_first(story, tmp_path) == (9, story.line_of(placed))
    else:
        assert story.check(tmp_path).ok


@pytest.mark.parametrize(("seconds", "known"), [(0.0, False), (31.0, True)])
def test_a_spread_counts_a_deleted_node_until_workers_know(
    story: Story, seconds: float, known: bool, tmp_path: Path
) -> None:
    """Two nodes in zone a, of which the one with a pod is deleted: the second pod of zone b is one
    too many for who knows that (seed 182294)."""
    nodes = [
        {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10]], "spec": 3}
        | {"facts": {"labels": {"zone": zone}}}
        for row, zone in enumerate("aab")
    ]
    story.ledger("node", nodes=nodes)
    app = [{"key": "app", "operator": "In", "values": ["even"]}]
    spread = {"topology_key": "zone", "selector": app, "max_skew": 1}
    task_class = {"cid": LONER, "requests": [[PODS, 1, 0]], "best_effort": True, "rules": "even"}
    story.ledger("class", classes=[task_class], rules={"even": {"spreads": [spread]}})
    job = {"jid": 3, "qid": 1, "spec": 1, "key": "default/job-3", "uid": "uid-3"}
    role = [LONER, 0, 3, 0, {"labels": {"app": "even"}}]
    story.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [role]}])
    story.commit(3, {0: 1, 1: 2}, cid=LONER)
    story.ledger("node_gone", rows=[1])
    story.t += seconds
    placed = story.commit(3, {2: 2}, cid=LONER)
    if known:
        assert the_first(story, tmp_path) == (9, story.line_of(placed))
    else:
        assert story.check(tmp_path).ok
