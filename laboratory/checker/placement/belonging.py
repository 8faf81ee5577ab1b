"""Nodes that are not for everybody: those of node groups, and of revocable zones.

A queue's tasks keep to the node groups that it names (plugin nodegroup). A node of a revocable zone
takes only tasks that may be sent away again, in the hours of its zone (plugin tdm).
"""

from __future__ import annotations

from laboratory.checker.state.books import RECENT, CheckerBooks, Facts
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

GROUP = "volcano.sh/nodegroup-name"
ZONE = "volcano.sh/revocable-zone"
_HOURS = "tdm.revocable-zone."
_DAY = 86400


class Belonging:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def wrong(self, job: CheckedJob, tix: int, policies: list[CheckedPolicy]) -> str:
        """Why the task may not be on its node, by every policy that may be followed; "" if it
        may."""
        labels = self._books.labels_of(job.rows[tix])
        if GROUP not in labels and ZONE not in labels and not self._books.queues.choosy:
            return ""
        reasons = [self._by(policy, job, tix, labels) for policy in policies]
        return reasons[-1] if reasons and all(reasons) else ""

    def _by(self, policy: CheckedPolicy, job: CheckedJob, tix: int, labels: dict[str, str]) -> str:
        groups, zones = policy.plugin("nodegroup"), policy.plugin("tdm")
        if groups is not None and (wrong := self._outside(groups, job, labels.get(GROUP, ""))):
            return wrong
        zone = labels.get(ZONE)
        if zones is None or zone is None:
            return ""
        if not self._open(zones.get("arguments", {}).get(_HOURS + zone, "")):
            return f"its node is of the revocable zone {zone}, outside of its hours"
        role = job.role_of(tix)
        return "" if role.revocable else "its node is revocable, and it cannot be sent away again"

    def _outside(self, plugin: Facts, job: CheckedJob, group: str) -> str:
        inherits = plugin.get("flags", {}).get("enableHierarchy", False)
        since = self._books.t - RECENT
        affinities = self._books.queues.affinities(job.qid, since=since, inherits=inherits)
        strict = plugin.get("arguments", {}).get("strict", True)
        if any(_admits(affinity, group, strict=strict) for affinity in affinities):
            return ""
        return f"its queue does not let it onto nodes of group {group or '(none)'}"

    def _open(self, hours: str) -> bool:
        start, _, end = hours.partition("-")
        if not end:
            return False
        return any(_within(start, end, self._books.t - late) for late in (0.0, RECENT))


def _admits(affinity: Facts | None, group: str, *, strict: bool) -> bool:
    required = [] if affinity is None else affinity.get("required", [])
    if affinity is not None and group in affinity.get("anti_required", ()):
        return False
    if not group:
        return not strict and not required
    return not required or group in required


def _within(start: str, end: str, t: float) -> bool:
    second, first, last = t % _DAY, _second(start), _second(end)
    if first < last:
        return first <= second <= last
    return second >= first or second <= last


def _second(text: str) -> int:
    hour, _, minute = text.strip().partition(":")
    return int(hour) * 3600 + int(minute) * 60
