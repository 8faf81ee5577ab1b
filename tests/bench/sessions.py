"""One action of a KAI session: how long it takes, and what it does."""

from __future__ import annotations

import time
from dataclasses import dataclass

from shard_worker.dialects.open_session import run_action
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.status import Status
from shared.garbage_collection import RestingCollector
from tests.bench.shapes import SessionShape


@dataclass(frozen=True, slots=True)
class SessionTime:
    """One shape of one size."""

    seconds: float
    processor_seconds: float
    placed: int
    evicted: int
    searches: int
    simulated: int
    ruled_out: int


def time_session(shape: SessionShape, nodes: int) -> SessionTime:
    """Building the cluster is not counted."""
    session = shape.build(nodes)
    RestingCollector().begin()  # as a worker does once its view is loaded
    waiting = {task for task in session.world.tasks() if task.status is Status.PENDING}
    began, processor = time.perf_counter(), time.process_time()
    run_action(session, shape.action)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    return SessionTime(
        seconds=seconds,
        processor_seconds=processor,
        placed=sum(task.status is shape.reached for task in waiting),
        evicted=sum(op.kind is OpKind.EVICT for op in session.committed),
        searches=session.searches.searches,
        simulated=session.searches.simulated,
        ruled_out=session.searches.ruled_out,
    )
