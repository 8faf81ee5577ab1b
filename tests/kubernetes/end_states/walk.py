"""A walk: steps on a cluster whose scheduler and controllers run, and moments at which its fields
are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.kubelets import HollowKubelets

Json = dict[str, Any]
Fields = dict[str, str]
"""Field, such as ``PodGroup j: phase`` -> its value as a text."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster of a walk."""

    cluster: ApiClient
    kubelets: HollowKubelets


@dataclass(frozen=True, slots=True)
class Walk:
    name: str
    steps: Callable[[Stage], AsyncIterator[str]]
    """Yields the name of each moment at which the fields are read, once nothing moves."""
    policy: str
