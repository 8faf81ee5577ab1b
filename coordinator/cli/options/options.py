"""Options that mean the same in several commands, and their ways of being written."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class ModeChoice(StrEnum):
    """A worker's preference between own and other shards' nodes."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"


class Output(StrEnum):
    """How the result is written."""

    TABLE = "table"
    JSON = "json"


_SHARDS = typer.Option(
    "--shards", min=1, max=256, help="Parts of the cluster, each with a worker of its own"
)
_MODE = typer.Option(
    "--mode",
    help="Use of other shards' nodes: own nodes first (soft), own nodes only (hard), or "
    "all alike (none)",
)
_SEED = typer.Option("--seed", min=0, help="Start of all random choices: the workload, ties")

Shards = Annotated[int, _SHARDS]
ModeOption = Annotated[ModeChoice, _MODE]
Seed = Annotated[int, _SEED]

GivenShards = Annotated[int | None, _SHARDS]
"""The same where the settings count if nothing is said."""
GivenMode = Annotated[ModeChoice | None, _MODE]
GivenSeed = Annotated[int | None, _SEED]
OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="A table for people, or JSON on the last line of stdout"),
]
