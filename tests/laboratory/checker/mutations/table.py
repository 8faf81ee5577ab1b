"""The table of mutations, and how one gets into it."""

from __future__ import annotations

from collections.abc import Callable

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import History

Mutation = Callable[[History], None]

MUTATIONS: dict[str, tuple[Rule, Mutation]] = {}
NUMBERS: set[str] = set()
"""Mutations of the numbers themselves."""
OF_KAI: set[str] = set()
"""Mutations of the history of a run under a KAI policy."""


def breaks(
    rule: Rule, *, numbers: bool = False, of_kai: bool = False
) -> Callable[[Mutation], Mutation]:
    def note(mutation: Mutation) -> Mutation:
        name = mutation.__name__
        MUTATIONS[name] = (rule, mutation)
        if numbers:
            NUMBERS.add(name)
        if of_kai:
            OF_KAI.add(name)
        return mutation

    return note
