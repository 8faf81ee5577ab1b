"""Policy files of chaos runs, at the start and as changed while jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

EVICTING_EVERY = 4
"""One in this many seeds has a policy that evicts."""

_FIRST = ("priority", "gang", "conformance")
_SECOND = ("drf", "predicates", "proportion", "nodeorder")
_MAKING_ROOM = (("preempt",), ("reclaim",), ("preempt", "reclaim"))
_ALSO = ((), ("binpack",), ("overcommit",))


def evicts(seed: int) -> bool:
    """Whether tasks of this run may be evicted for others."""
    return seed % EVICTING_EVERY == EVICTING_EVERY - 1


def draw_policy(draw: Random, *, evicting: bool) -> str:
    """A random policy in Volcano's format, as YAML. Under each of them everything binds
    eventually."""
    actions = ["enqueue", "allocate", "backfill"]
    if evicting:
        actions += draw.choice(_MAKING_ROOM)
    tiers = (_FIRST, (*_SECOND, *draw.choice(_ALSO)))
    return f'actions: "{", ".join(actions)}"\ntiers:\n' + "".join(map(_tier, tiers))


def _tier(plugins: Sequence[str]) -> str:
    return "- plugins:\n" + "".join(f"  - name: {name}\n" for name in plugins)


def write_policy(path: Path, text: str) -> None:
    """Write the file atomically, as a coordinator may be reading it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
