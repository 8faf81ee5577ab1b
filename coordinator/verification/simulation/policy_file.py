"""The policy file of a seeded run: every coordinator finds it, and notices when it changes."""

from __future__ import annotations

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shared.policy.model import Policy

LOOK_SECONDS = 0.2
"""How often a leader looks at it: a fifth of the service's time, as all times of a run."""


class Policies:
    """``generation`` grows with each change."""

    def __init__(self, first: Policy) -> None:
        self.current = first
        self.generation = 0
        self.changing = False
        """Whether it changes at all: else nobody has to look."""

    def session(self) -> Session:
        """A new session under the policy that counts now."""
        return open_session(self.current)

    def change(self, policy: Policy) -> None:
        self.current = policy
        self.generation += 1
