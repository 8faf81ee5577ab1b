"""The options of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.cli.options.options import ModeChoice, Seed
from laboratory.cli.sizes import MOST_NODES, MOST_PODS, MOST_SHARDS, numbers_of

T = TypeVar("T")


class BenchSize(StrEnum):
    """The shapes of ``laboratory/workloads/shapes.py``, and one on a real API server."""

    BASIC = "basic"
    WIDE = "wide"
    FILL = "fill"
    FRACTIONS = "fractions"
    RECLAIM = "reclaim"
    RECLAIM_MANY = "reclaim-many"
    CONSOLIDATE = "consolidate"
    TOPOLOGY = "topology"
    NATIVE = "native"
    IDLE = "idle"
    KUBERNETES = "kubernetes"
    SCALE = "scale"


class BenchOutput(StrEnum):
    """How the result is written."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


NUMBERS_OF_SCALE = "1,2,4,8,16"


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of the command."""

    size: Annotated[
        BenchSize,
        typer.Argument(
            help="basic: 5,000 nodes and 10,000 pods; wide: 100,000 of each; fill: 4,000 jobs of "
            "one GPU on 500 nodes; fractions: 16,000 of half a GPU on 1,000; reclaim: 1,000 full "
            "nodes, and a gang that has a right to half of them; reclaim-many: 500 full nodes, and "
            "as many jobs as run; consolidate: 500 nodes with one GPU taken on each, and gangs of "
            "ten whole nodes; topology: 10,000 nodes in racks, and 200 gangs of 64; native: 5,000 "
            "nodes in 50 racks, 750 of Kubernetes' own PodGroups of 4 pods and three of 1,000, "
            "each in one rack; idle: 140,000 running pods; kubernetes: 5,000 nodes and 10,000 pods "
            "on a real API server; scale: basic with each number of --shards in each --mode",
        ),
    ]
    other_nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=MOST_NODES, help="Another number of nodes")
    ] = None
    other_pods: Annotated[
        int | None, typer.Option("--pods", min=1, max=MOST_PODS, help="Another number of pods")
    ] = None
    shards_given: Annotated[
        str | None,
        typer.Option(
            "--shards",
            metavar="N,...",
            help="Parts of the cluster, each with a worker of its own; several numbers are for "
            f"scale  [default: 4; of scale {NUMBERS_OF_SCALE}]",
        ),
    ] = None
    modes_given: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="none|soft|hard,...",
            help="Use of other shards' nodes: own nodes first (soft), own nodes only (hard), or "
            "all alike (none); several are for scale",
        ),
    ] = "soft"
    seed: Seed = 0
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", dir_okay=False, help="A policy file instead of the default"
        ),
    ] = None
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", dir_okay=False, help="Keep the history here"),
    ] = None
    output: Annotated[
        BenchOutput,
        typer.Option(
            "--output",
            "-o",
            help="A table for people, JSON on the last line of stdout, or of scale a page with "
            "plots",
        ),
    ] = BenchOutput.TABLE
    servers: Annotated[
        Path | None,
        typer.Option(
            "--servers",
            metavar="FOLDER",
            file_okay=False,
            help="kubernetes: where the programs etcd and kube-apiserver are",
        ),
    ] = None
    gang: Annotated[
        int, typer.Option("--gang", min=0, help="kubernetes: pods of each gang; 0: each by itself")
    ] = 0
    running: Annotated[
        int,
        typer.Option(
            "--running",
            min=0,
            help="kubernetes: number of pods on nodes beforehand; Quadrant is then restarted with "
            "its ledger",
        ),
    ] = 0
    kubelets: Annotated[
        bool,
        typer.Option(
            "--kubelets", help="kubernetes: create the pods meanwhile, and have them started"
        ),
    ] = False
    against: Annotated[
        list[Path] | None,
        typer.Option(
            "--against",
            metavar="PROGRAM",
            help="kubernetes: measure this scheduler too (kube-scheduler; vc-scheduler, with "
            "vc-controller-manager and Volcano's definitions beside it); may be repeated",
        ),
    ] = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """All numbers of shards. Raises CommandError."""
        return self._numbers(NUMBERS_OF_SCALE)

    @property
    def modes(self) -> list[ModeChoice]:
        """All modes. Raises CommandError."""
        names = [name.strip() for name in self.modes_given.split(",")]
        if unknown := [name for name in names if name not in list(ModeChoice)]:
            modes = ", ".join(ModeChoice)
            raise CommandError(f"--mode: {unknown[0]!r} is none of {modes}", code=EXIT_USAGE)
        return [ModeChoice(name) for name in names]

    @property
    def shards(self) -> int:
        """The number of shards of one run. Raises CommandError."""
        return self._only("--shards", self._numbers("4"))

    @property
    def mode(self) -> ModeChoice:
        """The mode of one run. Raises CommandError."""
        return self._only("--mode", self.modes)

    def _numbers(self, usual: str) -> tuple[int, ...]:
        return numbers_of(self.shards_given or usual, "--shards", MOST_SHARDS)

    def _only(self, option: str, given: Sequence[T]) -> T:
        if len(given) > 1:
            what = f"{self.size.value} runs once; several are for scale"
            raise CommandError(f"{option}: {what}", code=EXIT_USAGE)
        return given[0]
