"""What each node holds on the cluster's side, by its own starts and ends (promise 2).

A task's commit may stand behind its bind in the file: the two sides are written by different hands.
So that the class of each is known, moves are taken up when the ledger's side is a little further.

Of what a node offers the most that it ever did is held against it: one that shrank keeps what is
there, and nothing in the events tells how long.
"""

from __future__ import annotations

from coordinator.verification.checker.placement.devices import DeviceChecks
from coordinator.verification.checker.report.rules import Rule
from coordinator.verification.checker.state.books import CheckerBooks
from coordinator.verification.checker.state.cluster import ClusterBinding, ClusterSide
from coordinator.verification.checker.state.job import NOWHERE

BEHIND = 1.0
"""Seconds that the ledger's side is to be further: more than clocks of one machine differ."""


class Presence:
    def __init__(self, books: CheckerBooks, cluster: ClusterSide, devices: DeviceChecks) -> None:
        self._books = books
        self._cluster = cluster
        self._devices = devices
        self._used: dict[str, dict[str, int]] = {}
        """Node -> slot or thing -> what its tasks use."""
        self._there: dict[str, dict[tuple[int, int], int]] = {}
        """Node -> (jid, tix) -> class."""
        self._rows: dict[str, int] = {}

    def catch_up(self, t: float) -> None:
        """The ledger's side is read up to ``t``."""
        moves, before = self._cluster.moves, t - BEHIND
        while moves and moves[0][0] <= before:
            _, binding, by = moves.popleft()
            if by > 0:
                self._come(binding)
            else:
                self._leave(binding)

    def settle(self) -> None:
        """The history ends: nothing more of the ledger's side will come."""
        self.catch_up(float("inf"))

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
            self._tell(binding, Rule.CLUSTER_CAPACITY, broken)
        if cid in books.rules and (short := self._devices.short(binding.node, present)):
            self._tell(binding, Rule.DEVICES, short)

    def _leave(self, binding: ClusterBinding) -> None:
        cid = self._there.get(binding.node, {}).pop((binding.jid, binding.tix), NOWHERE)
        if cid != NOWHERE:
            used = self._used[binding.node]
            for resource, amount, _ in self._books.nodes.most(cid, self._row(binding.node)):
                used[resource] -= amount

    def _adopted(self, present: dict[tuple[int, int], int]) -> bool:
        """Came one of them by a request that was late? Then it is too much from outside."""
        jobs = self._books.jobs
        return any(tix in jobs[jid].adopted for jid, tix in present)

    def _row(self, node: str) -> int:
        row = self._rows.get(node)
        if row is None:
            rows = {name: row for row, name in self._books.nodes.names.items()}
            self._rows = rows
            row = rows.get(node, -1)
        return row

    def _tell(self, binding: ClusterBinding, rule: Rule, problem: str) -> None:
        task = f"task {binding.jid}.{binding.tix}"
        message = f"{task} came to node {binding.node} on the cluster, {problem}"
        self._books.findings.add_at(binding.line, "bind", rule, message)
