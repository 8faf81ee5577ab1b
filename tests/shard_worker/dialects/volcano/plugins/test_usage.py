"""usage: busy nodes take nothing, idle ones are preferred."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.harness import Cluster, Result
from shared.policy.model import PluginOption, PolicyError

BUSY, HALF, IDLE = {"cpu": 95.0, "memory": 10.0}, {"cpu": 50.0, "memory": 50.0}, {"cpu": 5.0}


def run(used: dict[str, dict[str, float]], tasks: int = 1, **arguments: Any) -> Result:
    cluster = Cluster("gang", PluginOption("usage", arguments))
    for name in ("a", "b", "c"):
        cluster.node(name, cpu=4)
    cluster.job("job", tasks=tasks, minimum=1, cpu=2)
    cluster.world.objects.usage.update(used)
    return cluster.run()


def test_the_idlest_node_is_taken_and_a_busy_one_never() -> None:
    result = run({"a": BUSY, "b": HALF, "c": {"cpu": 5.0, "memory": 5.0}}, tasks=6)
    assert set(result.binds.values()) == {"b", "c"}
    assert result.binds["default/job-0"] == "c"
    assert len(result.binds) == 3  # a fourth would make one of them busy


def test_thresholds_are_arguments() -> None:
    used = {"a": BUSY, "b": BUSY, "c": BUSY}
    assert not run(used).binds
    assert run(used, thresholds={"cpu": 96}).binds
    assert not run(used, thresholds={"cpu": 96, "mem": 9}).binds


def test_a_node_of_which_nothing_is_told_passes() -> None:
    assert run({"a": BUSY, "b": BUSY}).binds == {"default/job-0": "c"}


def test_usage_of_a_task_placed_in_this_session_is_estimated() -> None:
    used = {"a": {"cpu": 40.0, "memory": 0.0}, "b": {"cpu": 50.0, "memory": 0.0}, "c": BUSY}
    weights = {"memory.weight": 0}
    assert run(used, tasks=2, **weights).binds == {"default/job-0": "a", "default/job-1": "b"}
    alike = run(used, tasks=2, estimator={"request_ratio": 0.0}, **weights).binds
    assert alike == {"default/job-0": "a", "default/job-1": "a"}


@pytest.mark.parametrize(
    "arguments", [{"thresholds": {"cpu": 101}}, {"thresholds": {"mem": "much"}}]
)
def test_a_mistake_is_told(arguments: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=r"plugin usage: .*(101|much)"):
        run({}, **arguments)
