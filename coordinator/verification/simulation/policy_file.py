"""The policy file of a seeded run, which coordinators read and watch for changes."""

from __future__ import annotations

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shared.policy.model import Policy

LOOK_SECONDS = 0.2
"""Interval of the leader's check: a fifth of the service's, as all times of a run."""


class Policies:
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
