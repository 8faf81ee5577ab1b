"""Free room that an evicting action found for a job and leaves to allocate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_worker.session_model.job import SessionJob


@dataclass(frozen=True, slots=True)
class LeftRoom:
    """The job holds the room until allocate begins, so that no job that comes later in the action
    takes it."""

    give_back: Callable[[], object]
    job: SessionJob
    action: str
