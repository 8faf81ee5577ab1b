"""Asking the ledger for what only the leader may do, in a seeded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shared.ledger.errors import Deposed

T = TypeVar("T")


def unless_deposed(ask: Callable[[], T]) -> Callable[[], T | None]:
    """``ask``, with None for an answer where another one leads now."""

    def asking() -> T | None:
        try:
            return ask()
        except Deposed:
            return None

    return asking
