"""Jobs of a seeded scenario whose policies begin some of their pods anew."""

from __future__ import annotations

from random import Random
from typing import Any

from laboratory.simulation.scenario import Item, UserRequest
from shared.codec.packed import replace

RESTARTING = 0.25
"""Fraction of the seeds in which Jobs have such policies."""

OF_THESE = 0.5
"""Fraction of their Jobs that have one."""

FAILING = 0.4
"""Fraction of those whose pods fail, each time that they run."""

_POLICIES: tuple[tuple[str, str], ...] = (
    ("PodFailed", "RestartPod"),
    ("PodFailed", "RestartTask"),
    ("TaskCompleted", "RestartTask"),
    ("PodEvicted", "RestartTask"),
    ("*", "RestartPod"),
    ("*", "RestartTask"),
)


def restarting(draw: Random, wishes: list[UserRequest]) -> list[UserRequest]:
    """The wishes with policies for some of the Jobs; as they are in most seeds. Every Job comes to
    an end: it fails when it has restarted ``maxRetry`` times."""
    if draw.random() >= RESTARTING:
        return wishes
    names = sorted({n for wish in wishes for item in wish.items if (n := _job_name(item))})
    specs = {name: _spec(draw) for name in names if draw.random() < OF_THESE}
    return [
        replace(wish, items=tuple(_with_policy(item, specs) for item in wish.items))
        for wish in wishes
    ]


def _job_name(item: Item) -> str:
    """Names of a user's own Jobs begin with j; of what ends with its queue nothing is made anew."""
    name: str = item["metadata"]["name"]
    return name if item["kind"] == "Job" and name.startswith("j") else ""


def _spec(draw: Random) -> dict[str, Any]:
    event, action = draw.choice(_POLICIES)
    policy = {"event": event, "action": action}
    return {
        "policies": [policy],
        "maxRetry": draw.randint(2, 4),
        "fails": event in ("PodFailed", "*") and draw.random() < FAILING,
    }


def _with_policy(item: Item, specs: dict[str, dict[str, Any]]) -> Item:
    spec = specs.get(_job_name(item))
    if spec is None:
        return item
    changed_queue: Item = {**item, "spec": {**item["spec"], **spec}}
    if changed_queue["spec"].pop("fails"):
        changed_queue["spec"]["tasks"] = [_failing(task) for task in item["spec"]["tasks"]]
    return changed_queue


def _failing(task: Item) -> Item:
    template = task["template"]
    metadata = template["metadata"]
    annotations = {**metadata["annotations"], "quadrant.dev/exit-code": "1"}
    return {**task, "template": {**template, "metadata": {**metadata, "annotations": annotations}}}
