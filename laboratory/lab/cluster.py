"""The cluster that a week is played on: nodes as columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laboratory.lab.week import Week, WeekError
from laboratory.workloads.columns import TableError, read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

CORES_PER_GPU = 12
ROUNDING = 1e-9
MEMORY_PER_CORE = 4096.0
"""MiB"""
_OPENB = {
    "name": "sn",
    "gpus": "gpu",
    "cpu": "cpu_milli milli",
    "memory": "memory_mib MiB",
    "model": "model",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes; the arrays run in parallel."""

    name: Sequence[str]
    gpus: NDArray[np.int64]
    cpu: NDArray[np.float64]
    """Cores"""
    memory: NDArray[np.float64]
    """MiB"""
    model: Sequence[str]
    """GPU model, "" where it is unknown."""

    def __len__(self) -> int:
        return len(self.gpus)

    @classmethod
    def equal(
        cls, nodes: int, *, gpus: int, cpu: float | None = None, memory: float | None = None
    ) -> Cluster:
        """Equal nodes. Without more words a node has 12 cores for each GPU, and 4 GiB for each
        core."""
        cores = float(CORES_PER_GPU * gpus or 32) if cpu is None else cpu
        amount = cores * MEMORY_PER_CORE if memory is None else memory
        digits = len(str(max(nodes - 1, 0)))
        return cls(
            name=[f"node-{number:0{digits}d}" for number in range(nodes)],
            gpus=np.full(nodes, gpus, dtype=np.int64),
            cpu=np.full(nodes, cores),
            memory=np.full(nodes, amount),
            model=[""] * nodes,
        )

    @classmethod
    def read(cls, path: Path | str, *, columns: Mapping[str, str] | None = None) -> Cluster:
        """Read a node list: columns name, gpus, cpu (cores), memory (MiB) and perhaps model, or
        those of openb. Raises :class:`WeekError`."""
        try:
            table = read_table(Path(path))
            chosen = {name: name for name in ("name", "gpus", "cpu", "memory")}
            if {"sn", "cpu_milli", "gpu"} <= set(table.header):
                chosen = dict(_OPENB)
            elif "model" in table.header:
                chosen["model"] = "model"
            chosen |= columns or {}
            model = chosen.get("model")
            gpus, cpu, memory = (table.numbers(chosen[n], n) for n in ("gpus", "cpu", "memory"))
            names = table.text(chosen["name"], "name")
            models = table.text(model, "model") if model else [""] * table.rows
        except TableError as error:
            raise WeekError(str(error)) from None
        for row in range(table.rows):
            _check_node(f"{path}: row {row + 1}", names[row], gpus[row], cpu[row], memory[row])
        if len(set(names)) < len(names) or not names:
            raise WeekError(f"{path}: needs at least one node, and a different name for each")
        return cls(names, gpus.astype(np.int64), cpu, memory, models)

    def digest(self) -> str:
        """SHA-256 of all columns."""
        mark = hashlib.sha256()
        for column in (self.gpus, self.cpu, self.memory):
            mark.update(column.tobytes())
        mark.update("\0".join([*self.name, *self.model]).encode())
        return mark.hexdigest()

    def without_room(self, week: Week) -> NDArray[np.bool_]:
        """Jobs of a week, cut for this cluster, that do not fit it even when it is empty."""
        shapes: dict[tuple[float, ...], bool] = {}
        out = np.zeros(len(week), dtype=bool)
        rows = zip(week.pods, week.gpus, week.cpu, week.memory, week.rest, strict=True)
        for job, shape in enumerate(rows):
            if shape not in shapes:
                shapes[shape] = not self._fits(*map(float, shape))
            out[job] = shapes[shape]
        return out

    def _fits(self, pods: float, gpus: float, cpu: float, memory: float, rest: float) -> bool:
        """Whether so many equal pods fit, and one of ``rest`` GPUs beside them."""
        places = np.full(len(self), np.inf)
        for have, want in ((self.gpus, gpus), (self.cpu, cpu), (self.memory, memory)):
            if want > 0:
                places = np.minimum(places, np.floor(have / want))
        if 0 < gpus < 1:  # a share is of one GPU
            places = np.minimum(places, self.gpus * np.floor(1 / gpus + ROUNDING))
        if places.sum() < pods:
            return False
        if rest == 0:
            return True
        spare = self.gpus - gpus * places  # a node with room for the rest beside its whole pods
        return bool(places.sum() > pods or (spare >= rest).any())


def _check_node(where: str, name: str, gpus: float, cpu: float, memory: float) -> None:
    if not name:
        raise WeekError(f"{where}: the node has no name")
    finite = np.isfinite([gpus, cpu, memory]).all()
    if not (finite and gpus >= 0 and gpus.is_integer() and cpu > 0 and memory > 0):
        raise WeekError(
            f"{where}: node {name} has {gpus:g} GPUs, {cpu:g} cores, {memory:g} MiB; write whole "
            "GPUs, and cores and memory above 0"
        )
