"""Intervals of the periodic work in a run on virtual time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds. The defaults are a fifth of the service's: a run with faults has to recover from
    many of them in a short time."""

    leader_lease: float = 0.4
    worker_lease: float = 0.6
    heartbeat: float = 0.2
    """An idle worker is called this often; three of them fit into its lease, which each renews."""
    reconcile: float = 0.5
    """Between comparisons with the cluster. A difference found twice is repaired."""
    compares_books: bool = True
    """Whether a leader compares its books with the ledger, some 500 tasks a second."""


FAULTLESS = Intervals(
    leader_lease=60.0, worker_lease=60.0, heartbeat=15.0, reconcile=15.0, compares_books=False
)
"""For runs in which no process dies and no message is lost. Beside them the intervals above take
some 40 ms of processor time in each virtual second, whatever there is to do."""
