"""The checker on hard network topology (promise 9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laboratory.checker.story import PODS, Story, the_first

ONE = 3
"""Class: one pod that asks for something."""


@pytest.fixture
def story() -> Story:
    """Two racks of two nodes; job 1 has to stay within one of them."""
    story = Story()
    tiers = [[{"name": "predicates"}, {"name": "network-topology-aware"}]]
    story.ledger("policy", policy={"actions": ["allocate"], "tiers": tiers})
    for row in range(4):
        node = {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10], [0, 4000]], "spec": 2}
        story.ledger("node", nodes=[node])
    racks = {
        f"hypernode/rack-{rack}": {
            "name": f"rack-{rack}",
            "tier": 1,
            "members": [
                {"hyper": False, "kind": "exact", "value": f"n{row}"}
                for row in (2 * rack, 2 * rack + 1)
            ],
        }
        for rack in range(2)
    }
    story.ledger("object", keys=[*racks], gone=[False, False], values=racks)
    requests = [[PODS, 1, 0], [0, 1000, 0]]
    story.ledger("class", classes=[{"cid": ONE, "requests": requests, "best_effort": False}])
    job = {"jid": 1, "qid": 1, "spec": 1, "key": "default/job-1", "uid": "uid-1"}
    roles = {"groups": [[-1, 1]], "roles": [[ONE, 0, 3, 0]], "topology": {"tier": 1}}
    story.ledger("job", jobs=[job | roles])
    return story


def test_a_job_stays_within_its_rack(story: Story, tmp_path: Path) -> None:
    story.commit(1, {0: 0}, cid=ONE)
    story.commit(1, {1: 1}, cid=ONE)
    wrong = story.commit(1, {2: 2}, cid=ONE)
    assert the_first(story, tmp_path) == (9, story.line_of(wrong))


@pytest.mark.parametrize(
    ("history", "bound"), [("deleted", False), ("back just now", False), ("back long ago", True)]
)
def test_a_task_on_a_deleted_node_does_not_fix_the_rack_of_its_job(
    story: Story, history: str, bound: bool, tmp_path: Path
) -> None:
    """As in Volcano, and as a worker counts (seed 120619), until it knows that the node is back."""
    story.commit(1, {0: 0}, cid=ONE)
    story.ledger("node_gone", rows=[0])
    if history != "deleted":
        node = {"row": 0, "name": "n0", "allocatable": [[PODS, 10], [0, 4000]], "spec": 3}
        story.ledger("node", nodes=[node])
    if history == "back long ago":
        story.t += 31.0
    placed = story.commit(1, {1: 2}, cid=ONE)
    if bound:
        assert the_first(story, tmp_path) == (9, story.line_of(placed))
    else:
        assert story.check(tmp_path).ok


def test_a_job_stays_on_nodes_with_one_value_of_its_label(story: Story, tmp_path: Path) -> None:
    for row in range(4):
        facts = {"labels": {"rack": f"r{row // 2}"}} if row < 3 else {}
        node = {"row": row, "name": f"n{row}", "allocatable": [[PODS, 10], [0, 4000]], "spec": 3}
        story.ledger("node", nodes=[node | {"facts": facts}])
    job = {"jid": 1, "qid": 1, "spec": 2, "key": "default/job-1", "uid": "uid-1"}
    roles = {"groups": [[-1, 1]], "roles": [[ONE, 0, 3, 0]], "topology": {"label": "rack"}}
    story.ledger("job", jobs=[job | roles])
    story.commit(1, {0: 0}, cid=ONE)
    story.commit(1, {1: 1}, cid=ONE)
    wrong = story.commit(1, {2: 2}, cid=ONE)
    assert the_first(story, tmp_path) == (9, story.line_of(wrong))
