"""The score of each node for a task: one row per node, one column per plugin."""

from __future__ import annotations

from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState
from shard_worker.inquiry.findings import PlacementScores

NOTE = "as nodes stand now, without this task"


def here(core: Coordinator, state: JobState, scores: PlacementScores) -> dict[str, Any]:
    """``nodes``: how many take the task at each level. ``candidates``: the best first; ``level`` is
    None where a node would not take it now."""
    return {
        "pod": state.job.pod_name(scores.tix),
        "note": NOTE,
        "plugins": scores.plugins,
        "nodes": {f"L{level}": count for level, count in enumerate(scores.nodes, start=1)},
        "candidates": [
            {
                "node": core.names.get(candidate.row, f"row {candidate.row}"),
                "shard": core.dispatcher.shard_of.get(candidate.row),
                "level": f"L{candidate.level}" if candidate.level else None,
                "scores": dict(zip(scores.plugins, candidate.scores, strict=True)),
                "final": sum(candidate.scores),
                "chosen": candidate.row == scores.row,
            }
            for candidate in scores.candidates
        ],
    }
