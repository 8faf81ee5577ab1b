"""What a worker counts and measures for the metrics.

Sent with each answer to the coordinator, which adds it up: there is one place to scrape, and a
worker that dies loses only its last call's figures.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from shard_worker.framework.plugin_errors import PluginError
from shared.codec.checked import count, mapping, row, text
from shared.messages.messages import ACCEPTED, TRUE_CONFLICTS, Verdict
from shared.telemetry.histogram import Histogram, exponential

COMMIT_SECONDS = exponential(0.0001, 2, 14)
OPERATIONS = exponential(1, 2, 12)
SESSION_SECONDS = exponential(0.001, 2, 15)

RESULTS = ("committed", "rechecked", "true", "read", "quota", "epoch")
"""Labels for the ledger's verdict on a statement."""

CAUSES = ("true", "read", "quota", "epoch", "rollback")
"""Labels for why placements were discarded; ``rollback``: the rest of the gang found no room."""


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


class WorkerFigures:
    """Figures since they were last taken. Keys: :data:`RESULTS`, :data:`CAUSES`."""

    __slots__ = (
        "commit_seconds",
        "drifted",
        "operations",
        "plugin_errors",
        "replays",
        "session_seconds",
        "statements",
        "tracebacks",
        "wasted",
    )

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        self.wasted: Counter[str] = Counter()
        self.replays = 0
        self.drifted = 0
        """Rows of the view that were not the ledger's."""
        self.plugin_errors: Counter[str] = Counter()
        """Turns that ended because a plugin from outside raised, by plugin."""
        self.tracebacks: dict[str, str] = {}
        """What plugins raised, ``PLUGIN POINT EXCEPTION`` -> traceback; the first of each alone."""
        self.operations = Histogram(OPERATIONS)
        self.commit_seconds = Histogram(COMMIT_SECONDS)
        self.session_seconds = Histogram(SESSION_SECONDS)

    def judged(self, verdict: Verdict, *, wasted: int = 0) -> None:
        """Count the verdict on a statement (or on a refused operation of a tail)."""
        result = _RESULT[verdict]
        self.statements[result] += 1
        if wasted:
            self.wasted[result] += wasted

    def raised(self, error: PluginError, *, traced: bool) -> None:
        """Count what a plugin raised. ``traced``: one traceback of the kind was sent before."""
        self.plugin_errors[error.plugin] += 1
        if not traced:
            self.tracebacks[error.kind] = error.traceback

    def add(self, figures: WorkerFigures) -> None:
        self.statements.update(figures.statements)
        self.wasted.update(figures.wasted)
        self.replays += figures.replays
        self.drifted += figures.drifted
        self.plugin_errors.update(figures.plugin_errors)
        self.tracebacks = figures.tracebacks | self.tracebacks
        self.operations.add(figures.operations)
        self.commit_seconds.add(figures.commit_seconds)
        self.session_seconds.add(figures.session_seconds)

    def plain(self) -> list[Any]:
        """For the wire."""
        return [
            self.statements,
            self.wasted,
            self.replays,
            self.operations.plain(),
            self.commit_seconds.plain(),
            self.session_seconds.plain(),
            self.drifted,
            self.plugin_errors,
            self.tracebacks,
        ]

    @classmethod
    def of(cls, plain: Any) -> WorkerFigures:
        """The inverse of :meth:`plain`. Errors: Malformed."""
        figures = cls()
        values = row(plain, "figures", 9)
        statements, wasted, replays, operations, commit, session, drifted, errors, traces = values
        figures.statements = Counter(mapping(statements, "figures.statements", text, count))
        figures.wasted = Counter(mapping(wasted, "figures.wasted", text, count))
        figures.replays = count(replays, "figures.replays")
        figures.drifted = count(drifted, "figures.drifted")
        figures.plugin_errors = Counter(mapping(errors, "figures.plugin_errors", text, count))
        figures.tracebacks = mapping(traces, "figures.tracebacks", text, text)
        figures.operations = Histogram.of(OPERATIONS, operations)
        figures.commit_seconds = Histogram.of(COMMIT_SECONDS, commit)
        figures.session_seconds = Histogram.of(SESSION_SECONDS, session)
        return figures
