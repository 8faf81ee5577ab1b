"""Policy files of chaos runs, at the start and as changed while jobs run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

EVICTING_EVERY = 4
"""One in this many seeds has a policy that evicts."""

Plugin = str | tuple[str, dict[str, Any]]
"""A plugin, with its arguments where it has some."""

_FIRST = ("priority", "gang", "conformance")
_SECOND = ("drf", "predicates", "proportion", "nodeorder")
_MAKING_ROOM = (("preempt",), ("reclaim",), ("preempt", "reclaim"))
_SHARING: Plugin = ("deviceshare", {"deviceshare.VGPUEnable": True})
_ALSO = ((), ("binpack",), ("overcommit",))


def evicts(seed: int) -> bool:
    """Whether tasks of this run may be evicted for others."""
    return seed % EVICTING_EVERY == EVICTING_EVERY - 1


def draw_policy(draw: Random, *, evicting: bool, of_cluster: bool = False) -> str:
    """A random policy in Volcano's format, as YAML. Under each of them everything binds
    eventually. ``of_cluster``: for a real API server, where pods share GPUs, and all ways to
    evict are judged, by disruption budgets too."""
    actions = ["enqueue", "allocate", "backfill"]
    if evicting:
        actions += _MAKING_ROOM[-1] if of_cluster else draw.choice(_MAKING_ROOM)
    first: tuple[Plugin, ...] = (*_FIRST, "pdb") if of_cluster else _FIRST
    second: tuple[Plugin, ...] = (*_SECOND, *draw.choice(_ALSO))
    tiers = (first, (*second, _SHARING) if of_cluster else second)
    return f'actions: "{", ".join(actions)}"\ntiers:\n' + "".join(map(_tier, tiers))


def _tier(plugins: Sequence[Plugin]) -> str:
    return "- plugins:\n" + "".join(map(_plugin, plugins))


def _plugin(plugin: Plugin) -> str:
    if isinstance(plugin, str):
        return f"  - name: {plugin}\n"
    name, arguments = plugin
    return f"  - name: {name}\n    arguments: {json.dumps(arguments)}\n"


def write_policy(path: Path, text: str) -> None:
    """Write the file atomically, as a coordinator may be reading it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
