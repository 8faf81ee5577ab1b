"""Devices by what is written on bound pods: on a Kubernetes cluster each says which it has.

What the ledger says of devices is judged statement by statement. A ledger that was lost and filled
anew from the cluster knows only what it read of the pods, so that two statements of different
ledgers may give one device twice and each look right: the pods beside each other show it.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterBinding
from laboratory.checker.state.device_use import Taken

_Part = tuple[str, int]
"""(device, dimension)"""


class BoundDevices:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._used: dict[str, Counter[_Part]] = defaultdict(Counter)
        """Node -> what its pods have."""
        self._came: list[tuple[ClusterBinding, int]] = []
        """(binding, row) of pods that may have devices."""

    def come(self, binding: ClusterBinding, row: int) -> None:
        """A pod is on its node. Checks that the devices there have room for it."""
        if binding.devices is None:
            return
        self._came.append((binding, row))
        for name, amounts in binding.devices:
            self._books.findings.checked[Rule.DEVICE_CAPACITY] += 1
            most = self._books.devices.most(row, name) or [0] * len(amounts)
            used = self._add(binding.node, name, amounts, 1)
            if any(amount > limit for amount, limit in zip(used, most, strict=False)):
                problem = f"which makes {used} of {name} by what its pods say, it has {most}"
                self._books.came(binding, Rule.DEVICE_CAPACITY, problem)

    def leave(self, binding: ClusterBinding) -> None:
        for name, amounts in binding.devices or ():
            self._add(binding.node, name, amounts, -1)

    def settle(self) -> None:
        """Check that pods and ledger say the same: at the end, since a task that was found on its
        node gets its devices in the ledger later than the pod is seen."""
        for binding, row in self._came:
            job = self._books.jobs.get(binding.jid)
            if job is None:
                continue
            recorded_devices = job.given.get((binding.tix, row), [])
            if not binding.devices and not recorded_devices:
                continue
            self._books.findings.checked[Rule.DEVICES] += 1
            if not any(_alike(binding.devices or [], devices) for devices in recorded_devices):
                recorded = (
                    f"the ledger says {recorded_devices[-1]}"
                    if recorded_devices
                    else "the ledger has none for it"
                )
                self._books.came(
                    binding, Rule.DEVICES, f"and its pod says {binding.devices}, {recorded}"
                )

    def _add(self, node: str, name: str, amounts: list[int], sign: int) -> list[int]:
        """Add the amounts and return the new usage of the device."""
        used = self._used[node]
        for dimension, amount in enumerate(amounts):
            used[name, dimension] += sign * amount
        return [used[name, dimension] for dimension in range(len(amounts))]


def _alike(one: Taken, other: Taken) -> bool:
    return sorted((name, list(amounts)) for name, amounts in one) == sorted(
        (name, list(amounts)) for name, amounts in other
    )
