"""GPUs by KAI's own marks on bound pods: a label for the group of each that a pod shares, and an
annotation that tells shares from whole ones.

KAI's binder and its device plugin go by them, not by our annotation: a group is one GPU of the
cluster, and everything in it is on that one.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterBinding
from laboratory.checker.state.device_use import Taken

WHOLE = 1000
"""Parts of a GPU."""
NO_GROUP = ""
"""Stands for the GPUs that a pod has whole."""
_IN_BOOKS = 10**10
"""Parts of a GPU in the ledger, which counts MiB."""
_PREFIX = "kai-gpu/"
"""Begins what the ledger calls such a GPU."""


class KaiMarks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._used: Counter[str] = Counter()
        """Group -> parts that pods have of it."""
        self._members: dict[str, Counter[str]] = defaultdict(Counter)
        """Group -> node -> pods there."""
        self._open: dict[str, set[str]] = defaultdict(set)
        """Node -> groups that have pods there."""
        self._whole: Counter[str] = Counter()
        """Node -> parts of GPUs that pods have whole."""
        self._came: list[tuple[ClusterBinding, int]] = []
        """(binding, row) of pods that may have marks."""

    def come(self, binding: ClusterBinding, row: int) -> None:
        """A pod is on its node. Check that its groups, and the node, have room for it."""
        if binding.gpus is None:
            return
        self._came.append((binding, row))
        for group, parts in binding.gpus:
            self._books.findings.checked[Rule.DEVICE_CAPACITY] += 1
            self._add(binding.node, group, sum(parts), 1)
            if self._used[group] > WHOLE:
                problem = f"which makes {self._used[group]} of GPU group {group}, it has {WHOLE}"
                self._books.came(binding, Rule.DEVICE_CAPACITY, problem)
            elsewhere = sorted(self._members[group].keys() - {binding.node})
            if elsewhere:
                problem = f"and its GPU group {group} is on {elsewhere[0]}"
                self._books.came(binding, Rule.DEVICES, problem)
        used = self._whole[binding.node] + WHOLE * len(self._open[binding.node])
        most = WHOLE * self._books.devices.most_of(row, _PREFIX)
        if binding.gpus and used > most:
            problem = f"which makes {used} parts of its GPUs by KAI's marks, it has {most}"
            self._books.came(binding, Rule.DEVICE_CAPACITY, problem)

    def leave(self, binding: ClusterBinding) -> None:
        for group, parts in binding.gpus or ():
            self._add(binding.node, group, sum(parts), -1)

    def settle(self) -> None:
        """Check that marks and ledger say the same: at the end, as for our own annotation. A group
        is the same device of the same node for ever, whichever ledger gave it."""
        device_of: dict[str, tuple[str, str]] = {}
        group_of: dict[tuple[str, str], str] = {}
        for binding, row in self._came:
            job = self._books.jobs.get(binding.jid)
            if job is None:
                continue
            recorded_devices = [
                _of_kai(devices) for devices in job.given.get((binding.tix, row), [])
            ]
            if not binding.gpus and not any(recorded_devices):
                continue
            self._books.findings.checked[Rule.DEVICES] += 1
            marks = binding.gpus or []
            alike = [devices for devices in recorded_devices if _parts(devices) == _parts(marks)]
            if not alike:
                recorded = (
                    f"the ledger says {recorded_devices[-1]}"
                    if recorded_devices
                    else "the ledger has none for it"
                )
                self._books.came(
                    binding, Rule.DEVICES, f"and KAI's marks on it say {marks}, {recorded}"
                )
            elif len(marks) == 1 and marks[0][0] != NO_GROUP:  # of several no one knows which
                group, device = marks[0][0], (binding.node, alike[-1][0][0])
                first, known_group = (
                    device_of.setdefault(group, device),
                    group_of.setdefault(device, group),
                )
                if (first, known_group) != (device, group):
                    problem = f"where {device[1]} is GPU group {group}"
                    earlier = (
                        f"earlier {first[1]} of {first[0]} was, and {device[1]} was {known_group}"
                    )
                    self._books.came(binding, Rule.DEVICES, f"{problem}; {earlier}")

    def _add(self, node: str, group: str, parts: int, sign: int) -> None:
        if group == NO_GROUP:
            self._whole[node] += sign * parts
            return
        self._used[group] += sign * parts
        members = self._members[group]
        members[node] += sign
        if not members[node]:
            del members[node]
            self._open[node].discard(group)
        else:
            self._open[node].add(group)


def _of_kai(devices: Taken) -> Taken:
    """KAI's devices among these, in parts of a thousand as marks have them."""
    own = ((name, sum(amounts)) for name, amounts in devices if name.startswith(_PREFIX))
    return [(name, [round(n * WHOLE / _IN_BOOKS)]) for name, n in own]


def _parts(taken: Taken) -> Counter[int]:
    """Parts -> GPUs of which these are taken; whole ones one by one."""
    parts: Counter[int] = Counter()
    for name, amounts in taken:
        if name == NO_GROUP:
            parts[WHOLE] += sum(amounts) // WHOLE
        else:
            parts[sum(amounts)] += 1
    return +parts
