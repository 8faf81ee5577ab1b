"""Checks by outside figures: how busy nodes are, and which of them an extender refuses.

A node whose measured usage is above the policy's threshold takes nothing (plugin usage). Judged by
the figures that turns had, of which at least one in :data:`RECENT` seconds must let the task in:
what the session placed since only adds to them. An extender (plugin extender) is asked over HTTP,
and no history has its answers: only who knows what it answers can have them judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from laboratory.checker.state.books import RECENT, CheckerBooks
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

Figures = dict[str, tuple[float, float]]
"""Node -> percent of its CPU and memory in use; -1 where nothing is known."""

Refuses = Callable[[str, str], bool]
"""(namespace/name of the job, node) -> whether the extender keeps the job from it."""

_RESOURCES = (("cpu", "cpu", 0), ("memory", "mem", 1))
"""Resource, its name in the plugin's thresholds, and its place in the figures."""

_DEFAULT_THRESHOLD = 80.0


class MeasuredUsage:
    """The figures that turns had over time."""

    def __init__(self) -> None:
        self._periods: list[tuple[float, Figures]] = [(-inf, {})]
        """(when it began, figures), oldest first; without figures every node may be used."""

    def measured(self, event: dict[str, Any]) -> None:
        """These figures count from a moment on, in place of all that counted then."""
        usage = {node: (cpu, memory) for node, (cpu, memory) in event["usage"].items()}
        self._begin(event["from"], usage)
        if event["until"] is not None:
            self._periods.append((event["until"], {}))

    def forget(self, t: float) -> None:
        """From now on turns have no figures, until there are new ones."""
        self._begin(t, {})

    def _begin(self, t: float, figures: Figures) -> None:
        self._periods = [period for period in self._periods if period[0] < t]
        self._periods.append((t, figures))

    def of(self, node: str, t: float) -> Iterator[tuple[float, float] | None]:
        """The figures of a node that a worker may have had; None for those that are not known."""
        since = t - RECENT
        ends = [begin for begin, _ in self._periods[1:]] + [inf]
        self._periods = [p for p, end in zip(self._periods, ends, strict=True) if end > since]
        return (figures.get(node) for begin, figures in self._periods if begin <= t)


class OutsideWord:
    def __init__(self, books: CheckerBooks, refuses: Refuses | None) -> None:
        self._books = books
        self._refuses = refuses
        self.usage = MeasuredUsage()

    def wrong(self, job: CheckedJob, tix: int, policies: list[CheckedPolicy]) -> str:
        """Why the task may not be on its node, by every policy that may be followed; "" if it
        may."""
        node = self._books.nodes.names.get(job.rows[tix])
        if node is None:
            return ""
        reasons = [
            self._too_busy(policy, node) or self._refused(policy, job, tix, node)
            for policy in policies
        ]
        return reasons[-1] if reasons and all(reasons) else ""

    def _too_busy(self, policy: CheckedPolicy, node: str) -> str:
        plugin = policy.plugin("usage")
        if plugin is None:
            return ""
        most = plugin.get("arguments", {}).get("thresholds", {})
        reasons = [_above(most, figures) for figures in self.usage.of(node, self._books.t)]
        return "" if "" in reasons else reasons[-1]

    def _refused(self, policy: CheckedPolicy, job: CheckedJob, tix: int, node: str) -> str:
        plugin = policy.plugin("extender")
        if self._refuses is None or plugin is None:
            return ""
        arguments = plugin.get("arguments", {})
        managed = arguments.get("extender.managedResources", "")
        is_asked = arguments.get("extender.urlPrefix") and arguments.get("extender.predicateVerb")
        if not is_asked or (managed and not self._asks_for(job, tix, managed)):
            return ""
        return "the extender refuses its node" if self._refuses(job.key, node) else ""

    def _asks_for(self, job: CheckedJob, tix: int, listed: str) -> bool:
        names = self._books.objects.get("slots", {}).get("names", [])
        some = {name.strip() for name in listed.split(",")}
        requests = self._books.nodes.requests(job.cids[tix])
        return any(slot < len(names) and names[slot] in some for slot, _ in requests)


def _above(most: dict[str, float], figures: tuple[float, float] | None) -> str:
    for resource, threshold, place in _RESOURCES:
        limit = most.get(threshold, _DEFAULT_THRESHOLD)
        if figures is not None and figures[place] > limit:
            return f"{figures[place]:g}% of its node's {resource} is in use, {limit:g}% at most"
    return ""
