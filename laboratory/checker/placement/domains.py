"""Hard network topology: the tasks of a job are within one hyper node of at most a tier.

A worker judges by the hyper nodes that it knows. One that changed or went within :data:`RECENT`
seconds still counts as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from laboratory.checker.placement.labels import selected
from laboratory.checker.state.books import RECENT, CheckerBooks, Facts
from laboratory.checker.state.job import BINDING, RUNNING, CheckedJob

KEY = "hypernode/"
_HIGHEST = 1 << 30


class DomainChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._before: list[tuple[float, str, Facts]] = []
        """(time, key, facts) of hyper nodes that were replaced or deleted then."""

    def replaced(self, key: str) -> None:
        """A hyper node is about to change, or to go."""
        if (facts := self._books.objects.get(key)) is not None and key.startswith(KEY):
            self._before.append((self._books.t, key, facts))

    def wrong(self, job: CheckedJob, placed: list[int]) -> str:
        """Why a statement that placed these tasks broke the job's topology; "" if it did not."""
        if job.topology is None:
            return ""
        # What asks for nothing is filled in wherever it fits, as Volcano's backfill does. Who is on
        # a node that was deleted is in no domain, and binds nobody to one.
        plain, away = self._books.best_effort, self._books.may_be_away
        mine = {job.rows[tix] for tix in placed if job.cids[tix] not in plain}
        if not mine:
            return ""
        rows = mine | {
            row
            for row, cid, state in zip(job.rows, job.cids, job.states, strict=True)
            if BINDING <= state <= RUNNING and cid not in plain and not away(row)
        }
        domains = [nodes & rows for nodes in self._domains(job.topology)]
        if any(rows == nodes for nodes in domains):
            return ""
        earlier = rows - mine
        # What stood apart before (a hyper node changed under it) is no mistake of this statement.
        if earlier and not any(earlier <= nodes for nodes in domains):
            return ""
        names = ", ".join(sorted(self._books.nodes.names[row] for row in rows))
        return f"its job is on {names}, which no domain of {job.topology} has together"

    def _domains(self, topology: Facts) -> Iterator[set[int]]:
        """The rows of each hyper node that is allowed, now or recently."""
        if key := topology.get("label"):
            yield from self._of_label(key)
            return
        since, objects = self._books.t - RECENT, self._books.objects
        self._before = [entry for entry in self._before if entry[0] >= since]
        now = {key: facts for key, facts in objects.items() if key.startswith(KEY)}
        every = [*now.values(), *(facts for _, _, facts in self._before)]
        highest = topology.get("tier", _HIGHEST)
        if name := topology.get("tier_name"):
            highest = max((f["tier"] for f in every if f.get("tier_name") == name), default=-1)
        elif "tier" not in topology:
            yield set(self._books.nodes.names)  # the whole cluster is allowed
        for facts in every:
            if facts["tier"] <= highest:
                yield self._rows(facts, every, set())

    def _of_label(self, key: str) -> Iterator[set[int]]:
        """The rows of each value of a node label."""
        rows: dict[str, set[int]] = {}
        for row in self._books.nodes.names:
            if value := self._books.labels_of(row).get(key):
                rows.setdefault(value, set()).add(row)
        yield from rows.values()

    def _rows(self, hyper_node: Facts, every: list[Facts], seen: set[str]) -> set[int]:
        """The rows of a hyper node, with those of the hyper nodes within."""
        rows: set[int] = set()
        if hyper_node["name"] in seen:
            return rows
        for member in hyper_node.get("members", ()):
            if member["hyper"]:
                inside = [other for other in every if _names(member, other["name"], {})]
                for other in inside:
                    rows |= self._rows(other, every, seen | {hyper_node["name"]})
            else:
                rows |= {
                    row
                    for row, name in self._books.nodes.names.items()
                    if _names(member, name, self._books.labels_of(row))
                }
        return rows


def _names(member: Facts, name: str, labels: dict[str, str]) -> bool:
    match member["kind"]:
        case "exact":
            return bool(member.get("value") == name)
        case "regex":
            return re.search(member.get("value", ""), name) is not None
        case _:
            return selected(member.get("selector"), labels)
