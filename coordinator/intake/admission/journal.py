"""Undo log of the registry: changes since the last mark are reverted where the ledger refuses them.

Intake assigns numbers and names before it stores, because the requests of one batch build on each
other. A journaled dict or set records the old value of each changed key, but only while a batch is
open: 0.6 us a pod, of the 140 us that a task may cost, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ABSENT: Any = object()


class Journal:
    """The steps that undo the changes since the last mark; None where none is set."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] | None = None

    def mark(self) -> None:
        self.steps = []

    def note(self, step: Callable[[], None]) -> None:
        """Record a step that undoes the current change."""
        if self.steps is not None:
            self.steps.append(step)

    def forget(self) -> None:
        """Drop the recorded steps: the changes since the mark are final."""
        self.steps = None

    def undo(self) -> None:
        """Revert to the state at the mark. No effect where none is set."""
        steps, self.steps = self.steps or [], None
        # Backwards: a key that was changed twice ends with its first value.
        for step in reversed(steps):
            step()


class JournaledDict(dict[K, V]):
    """A dict that journals the methods below; no other method may change it."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def _note(self, keys: Iterable[K]) -> None:
        steps = self._journal.steps
        if steps is not None:
            current = self.get
            before = [(key, current(key, _ABSENT)) for key in keys]
            steps.append(lambda: self._put_back(before))

    def _put_back(self, before: list[tuple[K, V]]) -> None:
        for key, value in before:
            if value is _ABSENT:
                super().pop(key, None)
            else:
                super().__setitem__(key, value)

    def __setitem__(self, key: K, value: V) -> None:
        self._note((key,))
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self._note((key,))
        super().__delitem__(key)

    def pop(self, key: K, *default: Any) -> Any:
        self._note((key,))
        return super().pop(key, *default)

    def update(self, changes: dict[K, V]) -> None:  # type: ignore[override]
        self._note(changes)
        super().update(changes)

    def clear(self) -> None:
        self._note(list(self))
        super().clear()

    def setdefault(self, key: K, default: V) -> V:
        if key not in self:
            self[key] = default
        return self[key]


class JournaledSet(set[K]):
    """A set that journals the methods below; no other method may change it."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal, items: Iterable[K] = ()) -> None:
        super().__init__(items)
        self._journal = journal

    def __reduce__(self) -> tuple[Any, ...]:
        return JournaledSet, (self._journal, list(self))

    def add(self, item: K) -> None:
        if item not in self:
            self.update((item,))

    def discard(self, item: object) -> None:
        if item in self:
            self.difference_update((item,))

    def update(self, *others: Iterable[K]) -> None:
        new = set().union(*others) - self
        if self._journal.steps is not None:
            self._journal.steps.append(lambda: set.difference_update(self, new))
        super().update(new)

    def difference_update(self, *others: Iterable[Any]) -> None:
        removed = self & set().union(*others)
        if self._journal.steps is not None:
            self._journal.steps.append(lambda: set.update(self, removed))
        super().difference_update(removed)
