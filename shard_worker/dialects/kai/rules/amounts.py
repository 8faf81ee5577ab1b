"""Amounts of the three resources that KAI divides among queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

UNLIMITED = -1
"""A quota or limit without a bound, as KAI writes it."""
RESOURCES = ("cpu", "memory", "gpu")


class Amounts(NamedTuple):
    """Whole numbers in the units of the slots: thousandths of a core, bytes, thousandths of a
    device."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)

    def minus(self, other: Amounts) -> Amounts:
        return Amounts(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)


NOTHING = Amounts()
NO_BOUND = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)
UNITS = Amounts(cpu=1, memory=1, gpu=1000)
"""KAI's units: a thousandth of a core, a byte, a whole device."""


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of the parts."""
    cpu = memory = gpu = 0
    for part in parts:
        cpu += part[0]
        memory += part[1]
        gpu += part[2]
    return Amounts(cpu, memory, gpu)


def within(amount: int, bound: int) -> bool:
    """Whether the amount is at most the bound."""
    return bound == UNLIMITED or (amount != UNLIMITED and amount <= bound)


def all_within(amounts: Amounts, bounds: Amounts) -> bool:
    """Whether every amount is at most its bound."""
    return all(map(within, amounts, bounds))
