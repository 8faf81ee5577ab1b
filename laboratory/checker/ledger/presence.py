"""Usage of each node by the cluster's own starts and ends of tasks (promise 2).

A task's commit may come after its bind in the file, as the two sides are written independently.
Starts and ends are therefore applied only once the ledger's side is a little further, so that each
task's class is known. They are checked against the most that a node ever offered: a node that
shrank keeps its tasks, and no event tells for how long.
"""

from __future__ import annotations

from laboratory.checker.placement.bound_devices import BoundDevices
from laboratory.checker.placement.kai_marks import KaiMarks
from laboratory.checker.placement.placement import PlacementChecks
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterBinding, ClusterSide
from laboratory.checker.state.job import NOWHERE, CheckedJob

BEHIND = 1.0
"""Seconds that the ledger's side has to be ahead: more than clocks of one machine differ."""


class Presence:
    def __init__(
        self, books: CheckerBooks, cluster: ClusterSide, placement: PlacementChecks
    ) -> None:
        self._books = books
        self._cluster = cluster
        self._devices, self._volumes = placement.devices, placement.volumes
        self._written, self._marks = BoundDevices(books), KaiMarks(books)
        self._used: dict[str, dict[str, int]] = {}
        """Node -> slot or thing -> amount used by its tasks."""
        self._there: dict[str, dict[tuple[int, int], int]] = {}
        """Node -> (jid, tix) -> class."""
        self._rows: dict[str, int] = {}

    def catch_up(self, t: float) -> None:
        """Apply the moves that are at least BEHIND seconds older than ``t``, up to which the
        ledger's side is read."""
        moves, before = self._cluster.moves, t - BEHIND
        while moves and moves[0][0] <= before:
            _, binding, by = moves.popleft()
            if by > 0:
                self._come(binding)
            else:
                self._leave(binding)

    def settle(self) -> None:
        """Apply the remaining moves at the end of the history."""
        self.catch_up(float("inf"))
        self._written.settle()
        self._marks.settle()

    def _come(self, binding: ClusterBinding) -> None:
        books = self._books
        job = books.jobs.get(binding.jid)
        if job is None or binding.tix >= len(job.cids):
            return  # bound without a commit: told elsewhere
        cid, row = job.cids[binding.tix], self._row(binding.node)
        if cid == NOWHERE or row < 0:
            return
        present = self._there.setdefault(binding.node, {})
        present[binding.jid, binding.tix] = cid
        used = self._used.setdefault(binding.node, {})
        broken = ""
        for resource, amount, most in books.nodes.most(cid, row):
            used[resource] = used.get(resource, 0) + amount
            if used[resource] > most and not broken:
                broken = f"{resource}: {used[resource]} in use, it never had more than {most}"
        books.findings.checked[Rule.CLUSTER_CAPACITY] += 1
        if broken and not self._adopted(present):
            self._books.came(binding, Rule.CLUSTER_CAPACITY, broken)
        claims = cid in books.rules and books.policies.always("DynamicResourceAllocation")
        if claims and (short := self._devices.short(binding.node, present)):
            self._books.came(binding, Rule.DEVICES, short)
        self._with_volumes(binding, job, cid)
        self._written.come(binding, row)
        self._marks.come(binding, row)

    def _with_volumes(self, binding: ClusterBinding, job: CheckedJob, cid: int) -> None:
        """Check that the claims of a bound pod have volumes: a kubelet cannot mount others. By now
        the ledger's side is further, so that whatever they had is known."""
        rules = self._books.rules.get(cid, {})
        if "volumes" not in rules or not self._books.policies.always("VolumeBinding"):
            return
        self._books.findings.checked[Rule.VOLUMES] += 1
        if name := self._volumes.unbound(job.namespace, rules):
            self._books.came(binding, Rule.VOLUMES, f"before its claim {name} had a volume")

    def _leave(self, binding: ClusterBinding) -> None:
        cid = self._there.get(binding.node, {}).pop((binding.jid, binding.tix), NOWHERE)
        if cid != NOWHERE:
            self._written.leave(binding)
            self._marks.leave(binding)
            used = self._used[binding.node]
            for resource, amount, _ in self._books.nodes.most(cid, self._row(binding.node)):
                used[resource] -= amount

    def _adopted(self, present: dict[tuple[int, int], int]) -> bool:
        """Whether one of the tasks was adopted after a late request: then the excess came from
        outside."""
        jobs = self._books.jobs
        return any(tix in jobs[jid].adopted for jid, tix in present)

    def _row(self, node: str) -> int:
        row = self._rows.get(node)
        if row is None:
            # Made anew only where a name is missing: names keep their rows for ever.
            rows = {name: row for row, name in self._books.nodes.names.items()}
            self._rows = rows
            row = rows.get(node, -1)
        return row
