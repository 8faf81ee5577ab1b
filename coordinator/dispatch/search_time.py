"""How long the searches for victims in a call may take by the policy: a worker at one of them is no
worker that hangs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shard_worker.dialects.kai.actions.run import EVICTING
from shared.messages.messages import Turn
from shared.policy.dialect import parse_policy
from shared.policy.kai_model import SearchBudgets


class SearchTime:
    """The budgets of the policy that one worker has."""

    def __init__(self, policy: dict[str, Any] | None) -> None:
        """``policy``: the parsed file; None: the default, whose actions have no such budgets."""
        kai = None if policy is None else parse_policy(policy).kai
        self._budgets: SearchBudgets | None = None if kai is None else kai.budgets

    def of(self, turns: Iterable[Turn]) -> float:
        """Seconds for the searches among some turns; infinite where the policy does not bound
        them."""
        budgets = self._budgets
        if budgets is None:
            return 0.0
        return sum(budgets.longest(turn.action) for turn in turns if turn.action in EVICTING)
