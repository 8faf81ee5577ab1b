"""What is done to the history of a good run, by concept, and which rule it breaks.

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
    "tasks",
]
