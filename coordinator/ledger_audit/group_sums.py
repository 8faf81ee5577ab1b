"""Compares the members of each group of a job, by task records, with the job's record.

Members count as in the scripts (record.lua ``members_after``, evict.lua): a member counts while it
holds a node and is not evicted, and permanently once it succeeded. A best-effort member (it asks
only for a pod slot) also counts while it is pending, until it fails.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import numpy as np

from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from coordinator.ledger_audit.parted_dict import PartedDict
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.requests import RequestColumns
from coordinator.ledger_audit.task_columns import TIX_BITS, Ints
from shared.codec.checked import Malformed
from shared.messages.messages import UNSUCCESSFUL, TaskState
from shared.records.specs_jobs import decode_job

_GROUP_BITS = 16
"""A group's number is 2 bytes of a task record."""
_HEAD, _GROUP = 4, 3
"""Numbers before the first group of a job record; numbers per group (parent, minimum, held)."""


@cache
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


class GroupSums:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._requests = RequestColumns(picture.classes)
        self._held: PartedDict[int] = PartedDict()
        """jid << 16 | group -> members by their records, without those of groups below."""
        self.unclear: list[int] = []
        """Jobs whose records differ from the sums. Pending best-effort members, which have no
        records, may explain it, so their specifications are needed."""

    def add(self, lines: Ints) -> None:
        """Add tasks, by the numbers of their lines."""
        columns = self._picture.tasks
        state, cid = columns.column("state")[lines], columns.column("cid")[lines]
        # As in the scripts: a victim leaves its groups at once, its queue when it ends (decision
        # 0028).
        stays = columns.column("evicted")[lines] == 0
        places = self._requests.places(cid)
        asks_nothing = (places >= 0) & self._requests.best_effort[places]
        failed = np.isin(state, UNSUCCESSFUL)
        counts = np.where(
            asks_nothing,
            stays & ~failed,
            stays & (state >= TaskState.BINDING) & ~failed,
        )
        lines = lines[counts]
        keys = (columns.column("key")[lines] >> TIX_BITS << _GROUP_BITS) | columns.column("group")[
            lines
        ]
        groups, members = np.unique(keys, return_counts=True)
        for group, count in zip(groups.tolist(), members.tolist(), strict=True):
            self._held[group] = self._held.get(group, 0) + count

    def compare(self, jids: Iterable[int]) -> None:
        """Add the jobs among these that differ to ``unclear``."""
        picture = self._picture
        self.unclear += [
            jid
            for jid in jids
            if jid not in picture.moved_jobs
            and jid not in picture.forgotten
            and self._difference(jid, {})
        ]

    def compare_unclear(self, jids: Iterable[int], specs: Mapping[int, bytes]) -> Iterator[Finding]:
        """Findings of unclear jobs, given their specifications. A job whose specification is
        missing or unreadable is a finding that cannot be recomputed."""
        for jid in jids:
            try:
                waiting = self._waiting(jid, specs.get(jid, b""))
            except Malformed:
                yield self._finding(jid, self._difference(jid, {}), recomputable=False)
                continue
            if difference := self._difference(jid, waiting):
                yield self._finding(jid, difference)

    def _finding(
        self, jid: int, difference: tuple[tuple[int, int, int], ...], *, recomputable: bool = True
    ) -> Finding:
        kind, record = AuditKind.GROUP_HELD, self._picture.jobs[jid]
        return Finding.of_sums(
            kind, RecordKind.JOB, (jid,), record, difference, recomputable=recomputable
        )

    def _difference(self, jid: int, more: Mapping[int, int]) -> tuple[tuple[int, int, int], ...]:
        """(group, recorded, expected) where they differ. ``more``: members without a record."""
        record = self._picture.jobs[jid]
        count = len(record) // 8 - 1
        numbers = _numbers(count).unpack_from(record)
        groups = (count - _HEAD - 1) // _GROUP
        base = jid << _GROUP_BITS
        if groups == 1:  # as in most jobs
            has, should = int(numbers[6]), self._held.get(base, 0) + more.get(0, 0)
            return () if has == should else ((0, has, should),)
        members = [self._held.get(base | group, 0) + more.get(group, 0) for group in range(groups)]
        for group in range(groups - 1, 0, -1):  # a parent comes before its children
            parent = int(numbers[_HEAD + _GROUP * group])
            if 0 <= parent < group:
                members[parent] += members[group]
        has_all = [int(numbers[_HEAD + _GROUP * group + 2]) for group in range(groups)]
        return tuple(
            (group, has, should)
            for group, (has, should) in enumerate(zip(has_all, members, strict=True))
            if has != should
        )

    def _waiting(self, jid: int, spec: bytes) -> Counter[int]:
        """Members without a record that count, by group. Raises Malformed."""
        waiting: Counter[int] = Counter()
        for role in decode_job(spec).roles:
            task_class = self._picture.classes.get(role.cid)
            if task_class is not None and task_class.best_effort:
                tasks = range(role.first, role.first + role.count)
                line = self._picture.tasks.line
                waiting[role.group] += sum(line(jid, tix) is None for tix in tasks)
        return waiting
