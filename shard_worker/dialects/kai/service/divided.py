"""How a search of a KAI policy is divided among workers."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.search.parts import described, joined
from shared.messages.search_part import SearchPart
from shared.policy.kai_model import KaiPolicy
from shared.policy.model import Policy


class DividedKaiSearch:
    """The searches of one policy. Raises PolicyError."""

    def __init__(self, policy: Policy) -> None:
        self._budgets = (policy.kai or KaiPolicy()).budgets
        self.generators = len(open_kai_session(policy).evictions.generators)
        """Scenarios of how many generators are tried, one after the other."""

    def joined(self, parts: Sequence[SearchPart]) -> SearchPart:
        """The end of a search through all these parts, in their order."""
        return joined(parts, self._budgets.scenarios)

    def described(self, part: SearchPart, action: str) -> str:
        """How a search that found nothing ended, for people."""
        return described(part, self._budgets, action)
