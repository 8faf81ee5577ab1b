"""What a benchmark is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from coordinator.cli.options.options import ModeChoice, Output


class BenchSize(StrEnum):
    BASIC = "basic"
    WIDE = "wide"


SIZES = {BenchSize.BASIC: (5_000, 10_000), BenchSize.WIDE: (100_000, 100_000)}
"""Nodes, pods."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    size: BenchSize
    nodes: int
    pods: int
    shards: int
    mode: ModeChoice
    seed: int
    policy: Path | None
    history: Path | None
    output: Output
