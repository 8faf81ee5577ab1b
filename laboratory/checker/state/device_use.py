"""Usage of single devices of nodes, added up from the statements that name them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

Taken = list[tuple[str, list[int]]]
"""(device, amounts by dimension), of one task."""
_At = tuple[int, str, int]
"""(row, device, dimension)."""


class DeviceUse:
    def __init__(self) -> None:
        self._capacity: dict[int, dict[str, list[int]]] = defaultdict(dict)
        """Row -> device -> what the node declares of it."""
        self._most: dict[int, dict[str, list[int]]] = defaultdict(dict)
        """Row -> device -> the most that the node ever declared of it."""
        self._used: Counter[_At] = Counter()
        self._releasing: Counter[_At] = Counter()
        self._nominated: Counter[_At] = Counter()

    def declare(self, row: int, devices: Iterable[tuple[str, list[int]]]) -> None:
        """Update the capacity of the named devices; others keep theirs."""
        for name, amounts in devices:
            self._capacity[row][name] = amounts
            before = self._most[row].get(name, [0] * len(amounts))
            self._most[row][name] = [max(pair) for pair in zip(before, amounts, strict=False)]

    def declared(self, row: int) -> dict[str, list[int]]:
        """Device -> amounts that the node declares of it now."""
        return self._capacity[row]

    def most(self, row: int, name: str) -> list[int]:
        """The most that a node ever declared of a device; nothing if it never did."""
        return self._most[row].get(name, [])

    def most_of(self, row: int, prefix: str) -> int:
        """How many devices of this prefix the node ever declared."""
        return sum(name.startswith(prefix) for name in self._most[row])

    def drop_node(self, row: int) -> None:
        self._capacity.pop(row, None)

    # --- what happens ---------------------------------------------------------------------------

    def take(self, row: int, devices: Taken) -> str:
        """Add what one task takes; returns the limit it exceeds, "" if it fits."""
        _add(self._used, row, devices, 1)
        return self._beyond(row, devices, now=True)

    def nominate(self, row: int, devices: Taken) -> str:
        _add(self._nominated, row, devices, 1)
        return self._beyond(row, devices, now=False)

    def end_nomination(self, row: int, devices: Taken) -> None:
        _add(self._nominated, row, devices, -1)

    def spare(self, row: int, devices: Taken) -> bool:
        """Whether the node has, beyond all that is promised, as many alike devices with room for
        these parts."""
        used: set[str] = set()
        for name, amounts in devices:
            kind = name.rpartition("/")[0]
            fitting = (
                other
                for other, capacity in self._capacity[row].items()
                if other.rpartition("/")[0] == kind
                and other not in used
                and self._has_left(row, other, capacity, amounts)
            )
            other = next(fitting, None)
            if other is None:
                return False
            used.add(other)
        return True

    def _has_left(self, row: int, name: str, capacity: list[int], amounts: list[int]) -> bool:
        for dimension, (limit, amount) in enumerate(zip(capacity, amounts, strict=False)):
            at = (row, name, dimension)
            if self._used[at] - self._releasing[at] + self._nominated[at] + amount > limit:
                return False
        return True

    def release(self, row: int, devices: Taken) -> None:
        _add(self._releasing, row, devices, 1)

    def free(self, row: int, devices: Taken, *, releasing: bool) -> None:
        _add(self._used, row, devices, -1)
        if releasing:
            _add(self._releasing, row, devices, -1)

    def _beyond(self, row: int, devices: Taken, *, now: bool) -> str:
        for name, amounts in devices:
            capacity = self._capacity[row].get(name, [0] * len(amounts))
            for dimension, limit in enumerate(capacity[: len(amounts)]):
                at = (row, name, dimension)
                used, leaving, promised = self._used[at], self._releasing[at], self._nominated[at]
                if (now and used > limit) or used - leaving + promised > limit:
                    return (
                        f"node row {row} {name}[{dimension}]: used {used}, releasing {leaving}, "
                        f"nominated {promised}, there is {limit}"
                    )
        return ""


def _add(part: Counter[_At], row: int, devices: Taken, sign: int) -> None:
    for name, amounts in devices:
        for dimension, amount in enumerate(amounts):
            part[row, name, dimension] += sign * amount
