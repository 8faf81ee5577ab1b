"""Debug requests of an administrator to a worker: its stacks, its view, another log level."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any

import numpy as np

from shard_worker.view.columns import KINDS
from shard_worker.view.view import View
from shared.codec.packed import Codec, Finite, Packed
from shared.telemetry.logging import set_log_level
from shared.telemetry.profiler import sample

NODES = 1000
"""Nodes listed in a dump, those with the lowest rows; all are counted."""


class DebugVerb(StrEnum):
    PROFILE = "profile"
    DUMP = "dump"
    LOG_LEVEL = "loglevel"


class DebugRequest(Packed, frozen=True):
    verb: DebugVerb
    seconds: Finite = 0.0
    """How long to profile."""
    level: str = ""
    """The log level from now on."""


DEBUG = Codec(b"debug", DebugRequest)
"""The answer is JSON: for people, and no part of a decision."""


def answer_of_process(request: DebugRequest) -> dict[str, Any]:
    """Answer a request that needs only the process: a profile, which blocks for its time, or a log
    level."""
    if request.verb is DebugVerb.LOG_LEVEL:
        return {"level": request.level, "before": set_log_level(request.level)}
    profile = sample(request.seconds)
    return {
        "pid": os.getpid(),
        "seconds": round(profile.seconds, 3),
        "samples": profile.samples,
        "stacks": profile.stacks,
    }


def dump_of_view(view: View) -> dict[str, Any]:
    """Dump a worker's view of the cluster with the versions that it read."""
    exists = view.exists()
    rows = np.flatnonzero(exists)
    totals = {
        kind: {
            view.slot_name(slot): int(column[exists].sum())
            for slot, column in enumerate(view.columns.views[i])
        }
        for i, kind in enumerate(KINDS)
    }
    return {
        "counts": {
            "nodes": len(rows),
            "ownNodes": int(view.own[exists].sum()),
            "withheldNodes": int(view.withheld[exists].sum()),
            "staleNodes": int((exists & ~view.live()).sum()),
            "classes": len(view.classes),
            "nominatedJobs": len(view.nominations),
            "revision": view.revision,
        },
        "totals": totals,
        "nodes": [_node(view, row) for row in rows[:NODES].tolist()],
    }


def _node(view: View, row: int) -> dict[str, Any]:
    node = view.nodes[row]
    amounts = {
        kind: {
            view.slot_name(slot): column.item(row)
            for slot, column in enumerate(view.columns.views[i])
            if column.item(row)
        }
        for i, kind in enumerate(KINDS)
    }
    return {
        "name": f"row {row}" if node is None else node.name,
        "row": row,
        "version": view.version.item(row),
        "own": bool(view.own.item(row)),
        **amounts,
    }
