"""Reasons for a task that no node can take."""

from __future__ import annotations

from shard_worker.placement.task_class import too_large
from shared.units.slots import CPU
from tests.shard_worker.placement.support import cpus, record, view_of

NOBODY_HAS = 30
"""A slot beyond those that the nodes' records have."""


def test_a_resource_that_no_node_has_is_told() -> None:
    view = view_of([record(allocatable=cpus(4))])
    text = too_large(((CPU, 1000), (NOBODY_HAS, 1)), view, view.exists())
    assert "(the largest has 0)" in text
    assert "cpu" not in text
