"""Routes that only a leader serves, beside lists of objects and what the application has itself."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from coordinator.api.auth.authorization import may_plan, may_write
from coordinator.api.debugging import Debugging, debug_routes
from coordinator.api.parser.pool import Parsers
from coordinator.api.read.queue_pairs import queue_pairs_routes
from coordinator.api.read.queue_tree import queue_tree_routes
from coordinator.api.read.snapshot import record_routes
from coordinator.api.read.streaming import Streams
from coordinator.api.read.trace import trace_routes
from coordinator.api.subresources import virtual_routes
from coordinator.api.web.files import page_routes
from coordinator.api.web.frames import Frames
from coordinator.api.web.stream import frame_routes
from coordinator.api.write.handlers import WriteDependencies, write_routes
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.worker_client import Shards
from coordinator.explain.job_trace import Tracer
from coordinator.explain.queues.pair_hours import PairHours
from coordinator.intake.admission.registry import Registry
from coordinator.intake.intake import Intake
from coordinator.intake.principal import CALLER
from coordinator.intake.writer import IntakeWriter
from coordinator.objects.store import Objects
from coordinator.service.pod_evictor import PodEvictor


def service_routes(
    core: Coordinator,
    *,
    shards: Shards,
    intake: Intake,
    objects: Objects,
    writer: IntakeWriter,
    evictor: PodEvictor,
    parsers: Parsers,
    streams: Streams,
    history: Path,
    pair_hours: PairHours,
    frames: Frames,
) -> list[web.RouteDef]:
    """Explanations, plans and traces, the record of a snapshot, and whatever writes one object."""

    def names() -> Registry:
        return intake.registry  # another one after each recovery

    door = WriteDependencies(
        writer, objects, may=may_write(names), parsers=parsers, evictor=evictor
    )
    return [
        *virtual_routes(
            core,
            shards,
            intake,
            objects.stories,
            parsers,
            events_of=objects.events_of,
            reported=objects.report_reason,
            may_plan=lambda items: may_plan(CALLER.get(), items, names()),
            history=history,
        ),
        *trace_routes(Tracer(core, names), streams),
        *debug_routes(Debugging(core, shards, lambda: names().slots.names)),
        *record_routes(core),
        *queue_tree_routes(core),
        *queue_pairs_routes(core, pair_hours),
        *write_routes(door),
        *page_routes(),
        *frame_routes(frames, streams),
    ]
