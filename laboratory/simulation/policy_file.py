"""The policy file of a seeded run, which coordinators read and watch for changes."""

from __future__ import annotations

from typing import Any

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shared.policy.model import Policy

LOOK_SECONDS = 0.2
"""Interval of the leader's check: a fifth of the service's, as all times of a run."""


class SeededPolicies:
    """``generation`` increases with each change."""

    def __init__(self, first: Policy) -> None:
        self.current = first
        self.generation = 0
        self.changing = False
        """Whether it changes at all; otherwise nobody needs to check it."""

    def session(self) -> Session:
        """A new session with the current policy."""
        return open_session(self.current)

    def change(self, policy: Policy) -> None:
        self.current = policy
        self.generation += 1


class PolicyLook:
    """One coordinator's look at it. Implements
    :class:`coordinator.service.worker_lifecycle.WatchesPolicy`."""

    content: dict[str, Any] | None = None
    """Not as text: :attr:`in_force` says what new workers run."""

    def __init__(self, policies: SeededPolicies) -> None:
        self._policies = policies
        self.generation = policies.generation
        self.in_force = policies.current
        """The last one written to the ledger."""

    @property
    def changing(self) -> bool:
        return self._policies.changing

    def look(self) -> Session | None:
        if self.generation == self._policies.generation:
            return None
        self.generation = self._policies.generation
        return self._policies.session()
