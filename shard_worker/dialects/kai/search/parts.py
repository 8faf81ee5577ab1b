"""One search in parts: each tries some of the policy's generators, and together they end as one
search of all of them would."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.dialects.kai.evictions import SearchEnd
from shard_worker.dialects.kai.rules.budget import BudgetBound, told
from shared.codec.packed import replace
from shared.messages.search_part import SearchPart
from shared.policy.kai_model import SearchBudgets

TRIED = (SearchEnd.EXHAUSTED, SearchEnd.BUDGET)
"""How a search ends whose generators were tried in vain."""


def result_of(ended: SearchEnd, part: tuple[int, int] | None) -> SearchEnd:
    """Result to count for a search. A search in parts must count once: its first part counts unless
    it tried in vain, otherwise a later one does; success of a later part is counted at its
    commit."""
    if part is None:
        return ended
    is_first = part[0] == 0
    return SearchEnd.PART if (ended in TRIED) == is_first else ended


def joined(parts: Sequence[SearchPart], scenarios: int) -> SearchPart:
    """The end of one search through the generators of all these parts, in their order.
    ``scenarios``: how many are simulated for a job at most; 0: any number."""
    simulated, cut = 0, SearchPart(solved=False, simulated=0)
    for part in parts:
        simulated += part.simulated
        if scenarios and simulated > scenarios:
            # It went on where one search would have been at the bound.
            bound = BudgetBound.SCENARIOS.name
            return replace(cut, simulated=scenarios, bound=bound, generator=part.generator)
        if part.solved:
            return replace(part, simulated=simulated)
        cut = part if part.bound else cut
    return replace(cut, simulated=simulated)


def described(part: SearchPart, budgets: SearchBudgets, action: str) -> str:
    """How generators that found nothing ended, for people."""
    if not part.bound:
        return SearchEnd.EXHAUSTED.value
    bound, generator = BudgetBound[part.bound], part.generator
    return told(bound, budgets, action=action, generator=generator, simulated=part.simulated)
