"""Victims that count as equal in a simulation, because they fit on the same nodes."""

from __future__ import annotations

import pytest

from shard_worker.dialects.kai.actions.run import run_action
from shard_worker.session_model.status import Status
from shared.model.gpu_request import WHOLE
from tests.shard_worker.dialects.kai.clusters import KaiCluster


@pytest.mark.parametrize("repelled", ["first", "second"])
def test_a_victim_that_is_repelled_does_not_speak_for_one_that_is_not(repelled: str) -> None:
    """Both leave n0 for a job that needs all of it. On n1 there is room for one, and a pod that
    keeps those of app a away."""
    cluster = KaiCluster()
    for name in ("n0", "n1"):
        cluster.node(name, gpus=2, labels={"host": name})
    for at, name in enumerate(("first", "second")):
        held = ((f"kai-gpu/{at}", (WHOLE,)),)
        app = "a" if name == repelled else "b"
        cluster.job(name, on=["n0"], holding=[held], app=app)
    keeper = ((("kai-gpu/0", (WHOLE,))),)
    cluster.job("keeper", on=["n1"], holding=[keeper], priority=100, away_from="a")
    cluster.job("large", gpus=2, priority=75)
    session = cluster.open()
    run_action(session, "preempt")
    place = {task.name: (task.status, task.row) for task in session.world.tasks()}
    other = "second" if repelled == "first" else "first"
    assert place["large-0"] == (Status.PIPELINED, 0)
    assert place[f"{other}-0"] == (Status.PIPELINED, 1)
    assert place[f"{repelled}-0"][0] is Status.RELEASING
