"""What the policy file of a run says, and what it is changed to while jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

EVICTING_EVERY = 4
"""The policy of one of so many seeds evicts."""

_FIRST = ("priority", "gang", "conformance")
_SECOND = ("drf", "predicates", "proportion", "nodeorder")
_MAKING_ROOM = (("preempt",), ("reclaim",), ("preempt", "reclaim"))
_ALSO = ((), ("binpack",), ("overcommit",))


def evicts(seed: int) -> bool:
    """Whether tasks of this run may be evicted for others."""
    return seed % EVICTING_EVERY == EVICTING_EVERY - 1


def draw_policy(draw: Random, *, evicting: bool) -> str:
    """Volcano's configuration, as YAML. Everything binds under each of them in the end."""
    actions = ["enqueue", "allocate", "backfill"]
    if evicting:
        actions += draw.choice(_MAKING_ROOM)
    tiers = (_FIRST, (*_SECOND, *draw.choice(_ALSO)))
    return f'actions: "{", ".join(actions)}"\ntiers:\n' + "".join(map(_tier, tiers))


def _tier(plugins: Sequence[str]) -> str:
    return "- plugins:\n" + "".join(f"  - name: {name}\n" for name in plugins)


def write_policy(path: Path, text: str) -> None:
    """Whole or not at all: a coordinator may be reading it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
