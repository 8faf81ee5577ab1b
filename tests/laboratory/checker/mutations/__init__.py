"""Mutations of a good run's history, by concept, and the rule that each breaks.

Every mutation numbers the events anew (unless numbers are what it is about), so that only what the
events say can tell. Importing this package fills the table.
"""

from tests.laboratory.checker.mutations import (
    account,
    capacity,
    evictions,
    gangs,
    kai,
    ownership,
    placement,
    seals,
    tasks,
)
from tests.laboratory.checker.mutations.table import MUTATIONS, NUMBERS, OF_KAI

__all__ = [
    "MUTATIONS",
    "NUMBERS",
    "OF_KAI",
    "account",
    "capacity",
    "evictions",
    "gangs",
    "kai",
    "ownership",
    "placement",
    "seals",
    "tasks",
]
