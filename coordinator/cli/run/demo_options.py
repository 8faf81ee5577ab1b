"""What a demo is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coordinator.cli.options.options import ModeChoice, Output


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What was asked for, complete and checked."""

    trace: Path | None
    columns: str | None
    jobs: int | None
    backlog: bool
    nodes: int
    units: int
    """GPUs or CPUs of every node."""
    cpus: bool
    """Whether tasks ask for a CPU each, not for a GPU."""
    shards: int
    mode: ModeChoice
    seed: int
    speedup: float
    grace: float
    history: Path | None
    output: Output
