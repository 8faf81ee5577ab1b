"""Why a task is where it is, for people: one row for each node, one column for each plugin."""

from __future__ import annotations

from typing import Any

from coordinator.core import Coordinator
from coordinator.jobs import JobState
from shard_worker.findings import Here

NOTE = "as nodes stand now, without this task"


def here(core: Coordinator, state: JobState, found: Here) -> dict[str, Any]:
    """``nodes``: how many take it at each level. ``candidates``: the best first; ``level`` is None
    where a node would not take it now."""
    return {
        "pod": state.job.pod_name(found.tix),
        "note": NOTE,
        "plugins": found.plugins,
        "nodes": {f"L{level}": count for level, count in enumerate(found.nodes, start=1)},
        "candidates": [
            {
                "node": core.names.get(one.row, f"row {one.row}"),
                "shard": core.dispatcher.shard_of.get(one.row),
                "level": f"L{one.level}" if one.level else None,
                "scores": dict(zip(found.plugins, one.scores, strict=True)),
                "final": sum(one.scores),
                "chosen": one.row == found.row,
            }
            for one in found.candidates
        ],
    }
