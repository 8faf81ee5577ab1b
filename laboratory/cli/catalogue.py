"""All subcommands of ``quadrant``: those of the service, and the laboratory's own."""

from __future__ import annotations

from coordinator.cli import catalogue
from coordinator.cli.options.lazy import CommandEntry

LABORATORY = "Laboratory"

OWN = (
    CommandEntry(
        "demo",
        "laboratory.cli.demo.demo",
        "Run a workload on a simulated cluster, with real shards, a real ledger and real processes",
        LABORATORY,
    ),
    CommandEntry(
        "bench",
        "laboratory.cli.bench.bench",
        "Measure tasks per second, and the cost of a task in each process",
        LABORATORY,
    ),
    CommandEntry(
        "scaling",
        "laboratory.cli.replay.scaling",
        "Run one backlog with different numbers of shards, on virtual time, and compare",
        LABORATORY,
    ),
    CommandEntry(
        "lab",
        "laboratory.cli.lab.lab",
        "Play a recorded week under policies, on virtual time, and compare",
        LABORATORY,
    ),
    CommandEntry(
        "chaos",
        "laboratory.cli.chaos.chaos",
        "Break things on purpose, and check histories",
        LABORATORY,
        "app",
    ),
    CommandEntry(
        "replay",
        "laboratory.cli.replay.replay",
        "Decide a recorded cluster again: binds, evictions, nominations and reasons",
        LABORATORY,
    ),
    CommandEntry(
        "snapshot",
        "laboratory.cli.replay.snapshot",
        "Write a dump of a running service: all objects that affect decisions",
        LABORATORY,
    ),
)

ENTRIES = (*catalogue.ENTRIES, *OWN)
