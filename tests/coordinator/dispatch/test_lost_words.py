"""The reason of a failed worker is one line, for people."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.dispatch.worker_client import WorkerLost, _lost_if_late


def test_an_error_within_a_worker_is_told_without_its_traceback() -> None:
    from ray.exceptions import RayTaskError  # a second to import, in each process of the tests

    cause = ValueError("inquiry: array of 6 wanted")
    make: Any = RayTaskError  # it ships without annotations
    error = make("inquire", "Traceback (most recent call last): ...", cause, pid=1, ip="")
    with pytest.raises(WorkerLost) as lost, _lost_if_late(3, 1.0):
        raise error.as_instanceof_cause()
    assert str(lost.value) == "shard 3: ValueError: inquiry: array of 6 wanted"
    assert lost.value.alive
    assert lost.value.__cause__ is not None  # logs have it
