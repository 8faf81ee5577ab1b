"""Counts and times of a worker, for the metrics.

Sent with each answer to the coordinator, which adds it up: there is one place to scrape, and a
worker that dies loses only its last call's figures.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shard_worker.dialects.kai.evictions import SearchRecord
from shard_worker.framework.plugin_errors import PluginError
from shared.codec.packed import Count
from shared.messages.messages import ACCEPTED, TRUE_CONFLICTS, Verdict
from shared.telemetry.histogram import Histogram, exponential

N = TypeVar("N", int, float)

COMMIT_SECONDS = exponential(0.0001, 2, 14)
OPERATIONS = exponential(1, 2, 12)
SESSION_SECONDS = exponential(0.001, 2, 15)

RESULTS = ("committed", "rechecked", "true", "read", "quota", "epoch")
"""Labels for the ledger's verdict on a statement."""

CAUSES = ("true", "read", "quota", "epoch", "rollback")
"""Labels for why placements were discarded; ``rollback``: the rest of the gang found no room."""

STEPS = ("simulated", "ruled_out")
"""Labels for how far a scenario came."""


def _result_of(verdict: Verdict) -> str:
    if verdict in ACCEPTED:
        return verdict.name.lower()
    if verdict is Verdict.QUEUE:
        return "quota"
    # The batch was refused as a whole, whatever the nodes have: by its epoch, its run of the server
    # or its sequence number.
    if verdict in (Verdict.EPOCH, Verdict.RUN, Verdict.OLD):
        return "epoch"
    return "true" if verdict in TRUE_CONFLICTS else "read"


_RESULT = {verdict: _result_of(verdict) for verdict in Verdict}


class WorkerFigures(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Figures since they were last taken. Keys: :data:`RESULTS`, :data:`CAUSES`."""

    statements: dict[str, Count] = msgspec.field(default_factory=dict)
    wasted: dict[str, Count] = msgspec.field(default_factory=dict)
    replays: Count = 0
    drifted: Count = 0
    """Rows of the view that were not the ledger's."""
    plugin_errors: dict[str, Count] = msgspec.field(default_factory=dict)
    """Turns that ended because a plugin from outside raised, by plugin."""
    tracebacks: dict[str, str] = msgspec.field(default_factory=dict)
    """Exceptions of plugins, ``PLUGIN POINT EXCEPTION`` -> traceback; the first of each alone."""
    rule_seconds: dict[str, float] = msgspec.field(default_factory=dict)
    """Time in the rules of plugins, by ``PLUGIN POINT``: from a share of their calls."""
    rule_calls: dict[str, Count] = msgspec.field(default_factory=dict)
    searches: dict[str, Count] = msgspec.field(default_factory=dict)
    """Searches for victims, by ``ACTION RESULT``."""
    search_budgets: dict[str, Count] = msgspec.field(default_factory=dict)
    """Searches that a budget ended, by ``ACTION BUDGET``."""
    scenarios: dict[str, Count] = msgspec.field(default_factory=dict)
    """Sets of victims that they went through, by ``ACTION STEP``: :data:`STEPS`."""
    search_seconds: dict[str, float] = msgspec.field(default_factory=dict)
    """Duration of searches, by action."""
    operations: Histogram = msgspec.field(default_factory=lambda: Histogram(OPERATIONS))
    commit_seconds: Histogram = msgspec.field(default_factory=lambda: Histogram(COMMIT_SECONDS))
    session_seconds: Histogram = msgspec.field(default_factory=lambda: Histogram(SESSION_SECONDS))

    def judged(self, verdict: Verdict, *, wasted: int = 0) -> None:
        """Count the verdict on a statement (or on a refused operation of a tail)."""
        result = _RESULT[verdict]
        _add(self.statements, {result: 1})
        if wasted:
            self.waste(result, wasted)

    def waste(self, cause: str, placements: int) -> None:
        _add(self.wasted, {cause: placements})

    def raised(self, error: PluginError, *, traced: bool) -> None:
        """Count what a plugin raised. ``traced``: one traceback of the kind was sent before."""
        _add(self.plugin_errors, {error.plugin: 1})
        if not traced:
            self.tracebacks[error.kind] = error.traceback

    def searched(self, search: SearchRecord) -> None:
        """Count a search for victims."""
        action = search.action
        _add(self.searches, {f"{action} {search.ended.name.lower()}": 1})
        if search.bound is not None:
            _add(self.search_budgets, {f"{action} {search.bound.name.lower()}": 1})
        steps = zip(STEPS, (search.simulated, search.ruled_out), strict=True)
        _add(self.scenarios, {f"{action} {step}": number for step, number in steps})
        _add(self.search_seconds, {action: search.seconds})

    def add(self, figures: WorkerFigures) -> None:
        _add(self.statements, figures.statements)
        _add(self.wasted, figures.wasted)
        self.replays += figures.replays
        self.drifted += figures.drifted
        _add(self.plugin_errors, figures.plugin_errors)
        self.tracebacks = figures.tracebacks | self.tracebacks
        _add(self.rule_seconds, figures.rule_seconds)
        _add(self.rule_calls, figures.rule_calls)
        _add(self.searches, figures.searches)
        _add(self.search_budgets, figures.search_budgets)
        _add(self.scenarios, figures.scenarios)
        _add(self.search_seconds, figures.search_seconds)
        self.operations.add(figures.operations)
        self.commit_seconds.add(figures.commit_seconds)
        self.session_seconds.add(figures.session_seconds)


def _add(counts: dict[str, N], more: dict[str, N]) -> None:
    for key, number in more.items():
        counts[key] = counts[key] + number if key in counts else number
