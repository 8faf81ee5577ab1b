"""Whole cores of NUMA domains: a pod that asks for a guarantee is on a node that can give it.

Judged by what the node's agent reports (plugin numa-aware): the kubelet keeps the pod's policy, and
few enough domains have the cores free. Cores of pods that came since the report are not taken off,
because a history does not show which domain they got. A report that was replaced within
:data:`RECENT` seconds still counts.
"""

from __future__ import annotations

from collections import Counter

from laboratory.checker.state.books import RECENT, CheckerBooks, Facts
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

KEY = "numatopology/"
PLUGIN = "numa-aware"
_CPU, _CORE = 0, 1000


class NumaChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._before: list[tuple[float, str, Facts]] = []
        """(time, key, facts) of reports that were replaced or deleted then."""

    def replaced(self, key: str) -> None:
        """A report is about to change, or to go."""
        if key.startswith(KEY) and (report := self._books.objects.get(key)) is not None:
            self._before.append((self._books.t, key, report))

    def wrong(self, job: CheckedJob, tix: int, policies: list[CheckedPolicy]) -> str:
        """Why the node cannot give what the task asks for; "" if it can, or nothing is asked."""
        request, cores = job.role_of(tix).numa, self._cores(job.cids[tix])
        if not request or not cores or not policies:
            return ""
        if any(policy.plugin(PLUGIN) is None for policy in policies):
            return ""
        reports = self._reports(KEY + self._books.nodes.names[job.rows[tix]])
        if not reports:
            return "its node reports no NUMA domains"
        reasons = [_judge(report, request, cores) for report in reports]
        return "" if "" in reasons else reasons[0]

    def _cores(self, cid: int) -> int:
        """The whole cores that a class asks for; 0 if it asks for parts of one."""
        millicores = dict(self._books.nodes.requests(cid)).get(_CPU, 0)
        return 0 if millicores % _CORE else millicores // _CORE

    def _reports(self, key: str) -> list[Facts]:
        """The report of a node, and those that it replaced recently."""
        since, now = self._books.t - RECENT, self._books.objects.get(key)
        self._before = [entry for entry in self._before if entry[0] >= since]
        before = [facts for _, name, facts in self._before if name == key]
        return [*([] if now is None else [now]), *before]


def _judge(report: Facts, asked: str, cores: int) -> str:
    policies = dict(report.get("policies", ()))
    if (
        policies.get("CPUManagerPolicy") != "static"
        or policies.get("TopologyManagerPolicy") != asked
    ):
        return f"it asks for the NUMA policy {asked}, which its node does not keep"
    if asked == "best-effort":
        return ""
    domain_of = {cpu: domain for cpu, domain, *_ in report.get("cpus", ())}
    free = [ids for name, ids, *_ in report.get("resources", ()) if name == "cpu"]
    have = Counter(domain_of[cpu] for ids in free for cpu in _listed(ids) if cpu in domain_of)
    most = 1 if asked == "single-numa-node" else _fewest(Counter(domain_of.values()), cores)
    if sum(sorted(have.values(), reverse=True)[:most]) >= cores:
        return ""
    return f"it asks for {cores} cores of at most {most} NUMA domains, its node has {dict(have)}"


def _fewest(cores_of: Counter[int], cores: int) -> int:
    """How many of the domains have the cores together when all of them are free."""
    sizes = sorted(cores_of.values(), reverse=True)
    return next((n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= cores), 0)


def _listed(ids: str) -> set[int]:
    """The numbers in a text as Linux writes sets of CPUs: ``0-3,8``."""
    nodes_listed: set[int] = set()
    for part in ids.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            nodes_listed.update(range(int(first), int(last or first) + 1))
    return nodes_listed
