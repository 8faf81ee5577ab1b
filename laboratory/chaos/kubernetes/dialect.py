"""Dialect of a chaos run on a real API server, Volcano's or KAI's: its kinds, policies and GPU
requests. A run keeps its dialect from the first object to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from laboratory.chaos.kubernetes.demands import Item

QUEUES = ("default", "batch")
GPUS = 2
"""GPUs of each node."""


@dataclass(frozen=True, slots=True)
class GpuNodes:
    """Amounts and labels that every node has for its GPUs."""

    amounts: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class ChaosDialect(Protocol):
    @property
    def scheduler(self) -> str:
        """Name in the pods that are ours."""
        ...

    @property
    def definitions(self) -> Sequence[Item]: ...

    @property
    def nodes(self) -> GpuNodes: ...

    @property
    def crowded_queue(self) -> str:
        """Queue of a gang for which others have to go; "" for any."""
        ...

    @property
    def gang_seconds(self) -> str:
        """Annotation of the pods of a gang: seconds after which each ends."""
        ...

    @property
    def ends_in_part(self) -> bool:
        """Whether pods of a gang may end while others of it wait."""
        ...

    @property
    def limits_often(self) -> int:
        """Weight of a change of a queue's limit among all that a step may be."""
        ...

    def queues(self) -> list[Item]: ...

    def policy(self, draw: Random, *, evicting: bool) -> str:
        """A random policy, as YAML. Under each of them everything binds eventually."""
        ...

    def group(self, name: str, minimum: int, queue: str, *, ends: bool) -> Item:
        """A PodGroup; ``ends``: of pods that end by themselves."""
        ...

    def group_path(self, name: str) -> str: ...

    def put_in(self, pod: Item, group: str) -> None:
        """``group``: name of its PodGroup; "" for none."""
        ...

    def ask_gpus(self, pod: Item, draw: Random) -> None:
        """A part of one GPU, or of both of a node. Two of the larger parts do not fit on one."""
        ...

    def another_limit(self, draw: Random) -> tuple[str, Item]:
        """(path, change) of a queue."""
        ...
