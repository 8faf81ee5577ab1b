"""Requests to the ledger that only the leader may make, in a seeded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shared.ledger.errors import Deposed

T = TypeVar("T")


def unless_deposed(ask: Callable[[], T]) -> Callable[[], T | None]:
    """Wrap ``ask`` to return None if another coordinator leads now."""

    def asking() -> T | None:
        try:
            return ask()
        except Deposed:
            return None

    return asking
