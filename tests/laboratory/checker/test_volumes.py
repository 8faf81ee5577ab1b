"""The checker on limits of volumes (promise 9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laboratory.checker.story import PODS, Story, the_first

WITH_DATA, WITH_LOGS = 3, 4
"""Classes: one pod with the claim ``data``, or ``logs``."""


@pytest.fixture
def story() -> Story:
    """A node that takes no volume of a driver, and two claims whose volume is of that driver."""
    story = Story()
    story.ledger("policy", policy={"actions": ["allocate"], "tiers": [[{"name": "predicates"}]]})
    node = {"row": 0, "name": "n0", "allocatable": [[PODS, 10], [0, 4000]], "spec": 2}
    story.ledger("node", nodes=[node])
    put(story, {"csinode/n0": {"name": "n0", "limits": [["disk", 0]]}})
    for cid, name in ((WITH_DATA, "data"), (WITH_LOGS, "logs")):
        task_class = {"cid": cid, "requests": [[PODS, 1, 0], [0, 100, 0]], "best_effort": False}
        rules = {name: {"volumes": [name]}}
        story.ledger("class", classes=[task_class | {"rules": name}], rules=rules)
        put(story, {f"storageclass/{name}": {"name": name, "waits": True}})
        put(story, {f"volumeclaim/ns/{name}": claim(name)})
        role = [cid, 0, 2, 0]
        job = {"jid": cid, "qid": 1, "spec": 1, "key": f"ns/{name}", "uid": f"uid-{name}"}
        story.ledger("job", jobs=[job | {"groups": [[-1, 1]], "roles": [role]}])
    return story


def put(story: Story, values: dict[str, dict[str, object]]) -> None:
    story.ledger("object", keys=[*values], gone=[False] * len(values), values=values)


def claim(name: str, volume: str = "") -> dict[str, object]:
    reports = {"namespace": "ns", "name": name, "request": 1, "storage_class": name}
    return reports | ({"volume": volume, "phase": "Bound", "bound": True} if volume else {})


def bind(story: Story, name: str) -> None:
    """The claim gets a volume of the driver."""
    volume: dict[str, object] = {
        "name": f"pv-{name}",
        "driver": "disk",
        "handle": name,
        "claim": f"ns/{name}",
    }
    put(story, {f"volume/pv-{name}": volume, f"volumeclaim/ns/{name}": claim(name, f"pv-{name}")})


def test_a_claim_that_is_there_already_brings_no_volume(story: Story, tmp_path: Path) -> None:
    """Its volume was chosen after the first pod came, and is of a driver of which the node takes
    none: the second pod with it changes nothing (seed 120925)."""
    story.commit(WITH_DATA, {0: 0}, cid=WITH_DATA)
    bind(story, "data")
    story.commit(WITH_DATA, {1: 0}, cid=WITH_DATA)
    assert story.check(tmp_path).ok


def test_another_claim_does(story: Story, tmp_path: Path) -> None:
    story.commit(WITH_DATA, {0: 0}, cid=WITH_DATA)
    bind(story, "logs")
    wrong = story.commit(WITH_LOGS, {0: 0}, cid=WITH_LOGS)
    assert the_first(story, tmp_path) == (9, story.line_of(wrong))
