"""The checker on cores of NUMA domains (promise 9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laboratory.checker.story import PODS, Story, the_first

CORES, HALF = 3, 4
"""Classes: two cores, and one and a half."""
SINGLE, RESTRICTED, BEST_EFFORT = "single-numa-node", "restricted", "best-effort"


def story(requested: str, *, cid: int = CORES, plugin: bool = True) -> Story:
    """A node with two domains of two cores, and a job that asks for a guarantee."""
    history = Story()
    plugins = [{"name": "predicates"}, *([{"name": "numa-aware"}] if plugin else [])]
    history.ledger("policy", policy={"actions": ["allocate"], "tiers": [plugins]})
    node = {"row": 0, "name": "n0", "allocatable": [[PODS, 10], [0, 8000]], "spec": 2}
    history.ledger("node", nodes=[node])
    for number, millicores in ((CORES, 2000), (HALF, 1500)):
        asks = [[PODS, 1, 0], [0, millicores, 0]]
        history.ledger("class", classes=[{"cid": number, "requests": asks, "best_effort": False}])
    role = [cid, 0, 2, 0, {"numa": requested}]
    job = {"jid": 3, "qid": 1, "spec": 1, "key": "ns/pinned", "uid": "uid-3"}
    history.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [role]}])
    return history


def report(history: Story, free: str, *, keeps: str = SINGLE) -> None:
    policies = [["CPUManagerPolicy", "static"], ["TopologyManagerPolicy", keeps]]
    cpus = [[cpu, cpu // 2, 0, cpu] for cpu in range(4)]
    facts = {"name": "n0", "policies": policies, "resources": [["cpu", free, 4]], "cpus": cpus}
    key = "numatopology/n0"
    history.ledger("object", keys=[key], gone=[False], values={key: facts})


@pytest.mark.parametrize(
    ("requested", "free", "is_right"),
    [
        (SINGLE, "0-1,3", True),
        (SINGLE, "1-2", False),  # one core of each domain
        (RESTRICTED, "1-2", False),  # an empty node needs one domain for two cores
        (RESTRICTED, "2-3", True),
        (BEST_EFFORT, "", True),
    ],
)
def test_the_cores_are_in_few_enough_domains(
    requested: str, free: str, is_right: bool, tmp_path: Path
) -> None:
    history = story(requested)
    report(history, free, keeps=requested)
    placed = history.commit(3, {0: 0}, cid=CORES)
    if is_right:
        assert history.check(tmp_path).ok
    else:
        assert the_first(history, tmp_path) == (9, history.line_of(placed))


def test_a_node_that_keeps_another_policy_or_reports_nothing_is_wrong(tmp_path: Path) -> None:
    silent, other = story(SINGLE), story(SINGLE)
    report(other, "0-3", keeps=RESTRICTED)
    for item in (silent, other):
        placed = item.commit(3, {0: 0}, cid=CORES)
        assert the_first(item, tmp_path) == (9, item.line_of(placed))


@pytest.mark.parametrize("history", [story(SINGLE, cid=HALF), story(SINGLE, plugin=False)])
def test_numa_rules_skip_fractional_cores_and_unserved_tasks(
    history: Story, tmp_path: Path
) -> None:
    history.commit(3, {0: 0}, cid=history.events[-1]["jobs"][0]["roles"][0][0])
    assert history.check(tmp_path).ok


def test_a_report_of_a_moment_ago_counts(tmp_path: Path) -> None:
    """The worker had the older one, which had the cores."""
    history = story(SINGLE)
    report(history, "0-3")
    report(history, "")
    history.commit(3, {0: 0}, cid=CORES)
    assert history.check(tmp_path).ok
    history.t += 60.0
    placed = history.commit(3, {1: 0}, cid=CORES)
    assert the_first(history, tmp_path) == (9, history.line_of(placed))
