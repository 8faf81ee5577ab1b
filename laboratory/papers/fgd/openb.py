"""openb: GPU nodes and pods with shares of GPUs, and the order in which an experiment submits
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laboratory.papers.fgd.cards import WHOLE, Demand, PodKind
from laboratory.papers.paper import PaperError
from laboratory.workloads.columns import TableError, read_table

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_default.csv.gz"
TYPICAL = 0.95
"""Share of the pods that the most frequent kinds cover, which FGD expects."""


class GpuNode(NamedTuple):
    name: str
    cpu: int
    """Thousandths of a core"""
    memory: int
    """MiB"""
    gpus: int
    model: str


class Pod(NamedTuple):
    """A request."""

    demand: Demand
    memory: int
    """MiB"""


@dataclass(frozen=True, slots=True)
class Openb:
    nodes: Sequence[GpuNode]
    pods: Sequence[Pod]
    """In the order of their names."""

    @classmethod
    def read(cls, folder: Path) -> Openb:
        """Raises :class:`PaperError`."""
        try:
            nodes = _columns(folder / NODES, ("sn", "model"), ("cpu_milli", "memory_mib", "gpu"))
            pods = _columns(
                folder / PODS,
                ("name", "gpu_spec"),
                ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
            )
        except TableError as error:
            raise PaperError(str(error)) from None
        return cls(
            [GpuNode(name, cpu, memory, gpus, model) for name, model, cpu, memory, gpus in nodes],
            [
                Pod(_demand(cpu, gpus, milli, models), memory)
                for _, models, cpu, memory, gpus, milli in sorted(pods)
            ],
        )

    @property
    def capacity(self) -> int:
        """Thousandths of GPUs of all nodes."""
        return WHOLE * sum(node.gpus for node in self.nodes)

    def shuffled_nodes(self, seed: int) -> list[GpuNode]:
        order = np.random.default_rng([seed, 1]).permutation(len(self.nodes))
        return [self.nodes[at] for at in order.tolist()]

    def arrivals(self, seed: int, share: float) -> list[Pod]:
        """All pods in random order, and then pods drawn at random, until ``share`` of the cluster's
        GPUs has been asked for."""
        target, total = share * self.capacity, 0
        arriving: list[Pod] = []
        for pod in self._drawn(np.random.default_rng([seed, 2])):
            # As in the authors' simulator, which looks at the share of a single GPU here.
            if total + pod.demand.milli > target:
                break
            arriving.append(pod)
            total += pod.demand.amount
        return arriving

    def _drawn(self, rng: np.random.Generator) -> Iterator[Pod]:
        for at in rng.permutation(len(self.pods)).tolist():
            yield self.pods[at]
        while True:
            yield self.pods[int(rng.integers(len(self.pods)))]

    def typical(self) -> list[PodKind]:
        """The most frequent kinds of pods, and the share of each among them."""
        kept, covered = [], 0
        for demand, count in Counter(pod.demand for pod in self.pods).most_common():
            if covered >= TYPICAL * len(self.pods):
                break
            kept.append((demand, count))
            covered += count
        return [PodKind(demand, count / covered) for demand, count in kept]


def _columns(file: Path, texts: Sequence[str], numbers: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of these columns; numbers are whole. May raise TableError."""
    table = read_table(file)
    columns: list[list[Any]] = [table.text(name, name) for name in texts]
    columns += [table.numbers(name, name).astype(np.int64).tolist() for name in numbers]
    return list(zip(*columns, strict=True))


def _demand(cpu: int, gpus: int, milli: int, models: str) -> Demand:
    part = min(milli, WHOLE) if gpus else 0
    return Demand(cpu, gpus, part, tuple(models.split("|")) if models else ())
