"""Undoing what a turn did to the view, where a plugin raised in the middle of it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from shared.model.model import TaskClass

Shift = tuple[int, TaskClass, int, int]
"""Kind of amount, class, row, how many times its requests."""


class Shifting(Protocol):
    """The part of a view that is undone. ``shifts`` collects them unless it is None."""

    shifts: list[Shift] | None

    def shift(self, kind: int, cls: TaskClass, row: int, times: int) -> None: ...


class ShiftUndo:
    """A block in which every shift is undone if it raises. Not a generator: every turn enters one,
    and a turn of one task costs some 25 us."""

    __slots__ = ("_view",)

    def __init__(self, view: Shifting) -> None:
        self._view = view

    def __enter__(self) -> None:
        self._view.shifts = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shifts, self._view.shifts = self._view.shifts, None
        if kind is not None:
            for amount, cls, row, times in reversed(shifts or ()):
                self._view.shift(amount, cls, row, -times)
