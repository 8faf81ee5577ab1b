"""A cluster that has its own objects: what a leader runs for it, and what it serves of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.api.auth.reviews import ReviewServer
from coordinator.api.http.health import HealthCheck
from coordinator.bind.binder import BindPlan
from coordinator.cluster.kubernetes.bind_requests.writes import RequestWrites
from coordinator.cluster.kubernetes.cluster import KubernetesCluster
from coordinator.cluster.kubernetes.shadow.book import ShadowBook, ShadowFacts
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.writes.patch import ObjectServer
from coordinator.cluster.kubernetes.writes.writes import ApiWrites, WriteLeadership
from coordinator.controllers.device_claims import AppliesWork
from coordinator.controllers.prebind import PreBind, StoredPreBind
from coordinator.controllers.volume_controller import ClaimBinding
from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.errors import Problem
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.kinds import KINDS, NATIVE_POD_GROUP
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from coordinator.objects.store import Objects
from coordinator.service.leadership.lease import Leadership
from coordinator.service.observed.devices import ApiDevices
from coordinator.service.observed.feed import ClusterFeed
from coordinator.service.observed.first_queues import create_first_queues
from coordinator.service.observed.native_kinds import NativeKinds
from coordinator.service.observed.shadow_report import shadow_routes
from coordinator.service.observed.statuses import StatusReports
from coordinator.service.observed.volumes import ApiVolumes
from shared.model.named_devices import ASSIGNED_DEVICES, written_devices
from shared.model.node_devices import device_annotations
from shared.policy.model import Dialect
from shared.units.things import Things

FLUSH_SECONDS = 1.0
"""How late the shadow's record may be in its file."""
HOLD_LOOK_SECONDS = 0.02
"""Interval of looks whether turns may begin: of a start with a full ledger it is a small part."""
PODS_LOOK_SECONDS = 1.0
"""Interval of looks for victims that do not go, and for late bindings."""
_NAMED = 3
"""Objects in quarantine that health names."""
_READS = ("GET", "HEAD", "OPTIONS")
_OBJECTS = frozenset((kind.group, kind.plural) for kind in KINDS)


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    cluster: KubernetesCluster
    kinds: tuple[str, ...]
    """Kinds that are followed."""
    address: str
    """Where the objects live, for messages."""
    book: ShadowBook | None = None
    """Decisions of the shadow; None outside of it."""
    writes: ApiWrites | None = None
    """Writer to the API server; None in the shadow."""
    binder: RequestWrites | None = None
    """Requests to KAI's binder; None where we bind pods ourselves."""
    reviews: ReviewServer | None = None
    """Reviewer of clients' tokens and rights; None where the API server is not asked."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Kind -> objects that were not understood."""
    native_kinds: NativeKinds | None = None
    """Kinds of Kubernetes' own groups that the server has; None in the shadow."""

    def lead(self, ledger: str, leadership: Leadership) -> None:
        """This coordinator leads, by the ledger of this id."""
        if self.writes is not None:
            statement = f"{ledger}/{leadership.epoch}"
            self.writes.leadership = WriteLeadership(statement, leadership.remaining)
            self.cluster.mirror.statement = statement

    async def give_up(self) -> None:
        """In an orderly end, while we lead yet."""
        if self.writes is not None:
            await self.writes.leases.release()

    async def feed_forever(
        self,
        core: Coordinator,
        intake: Intake,
        writer: IntakeWriter,
        observe: Callable[[], Awaitable[None]],
        objects: Objects,
    ) -> None:
        """Have the books follow the cluster, and the cluster hear of what waits."""

        def job_uid(jid: int) -> str | None:
            state = core.order.known(jid)
            return None if state is None else state.job.uid

        def marks(jid: int, tix: int) -> Mapping[str, str]:
            row = self.cluster.mirror.pods.of_task((jid, tix))
            return {} if row is None else row.marks

        core.victims.devices.marks = marks
        core.victims.devices.unread = self.cluster.devices_unread
        if self.book is not None:
            self.book.facts = facts_of(core, intake)
        reports: StatusReports | None = None
        if self.writes is not None:
            reports = StatusReports(objects, self.cluster.mirror, self.writes)
            self.writes.device_marks = partial(_device_marks, core)
        feed = ClusterFeed(
            self.cluster,
            intake=intake,
            writer=writer,
            kinds=self.kinds,
            observe=observe,
            hold_turns=core.order.hold,
            job_uid=job_uid,
            refusals=self.refusals,
            not_understood=_told_nowhere if reports is None else reports.not_understood,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(_hold_turns(core, self.cluster.mirror))
            group.create_task(feed.run_forever())
            if self.writes is not None:
                group.create_task(self.writes.leases.keep_forever(self.writes.leadership.ledger))
                group.create_task(_report_pods_forever(core, self.cluster.mirror))
            if self.native_kinds is not None:
                stream = self.cluster.streams()[NATIVE_POD_GROUP.kind]
                group.create_task(self.native_kinds.keep_forever(stream))
            if self.binder is not None:
                group.create_task(self.binder.strays.delete_forever())
            if reports is not None:
                group.create_task(reports.run_forever())
            if self.writes is not None and intake.registry.dialect is Dialect.VOLCANO:
                group.create_task(create_first_queues(self.cluster.mirror, self.writes))
            if self.book is not None:
                group.create_task(_flush_forever(self.book))

    def moved(self, intake: Intake, pods: Sequence[Document]) -> None:
        """These pods are other tasks from now on: they joined the groups that they name."""
        tasks = intake.registry.pods
        self.cluster.admitted(
            [
                (
                    (document.key.namespace, document.key.name),
                    document.object()["metadata"]["uid"],
                    unpack_task(tasks[document.key.path]),
                )
                for document in pods
                if document.key.path in tasks
            ]
        )

    def routes(self) -> list[web.RouteDef]:
        return [] if self.book is None else shadow_routes(self.book, self.cluster.mirror)


def _told_nowhere(key: ObjectKey, item: dict[str, Any], why: str) -> None:
    """The shadow writes nothing: its report has the pods that it did not understand."""


def _device_marks(core: Coordinator, node: str, devices: Things) -> Mapping[str, str]:
    """Annotations that tell a pod's devices: ours, by which another ledger finds them again, and
    Volcano's, by which its device plugin does."""
    if not devices:
        return {}
    known = core.nodes.get(core.rows.get(node, -1))
    volcanos = {} if known is None else device_annotations(known, devices)
    return volcanos | {ASSIGNED_DEVICES: written_devices(devices)}


async def _hold_turns(core: Coordinator, mirror: Mirror) -> None:
    """Nothing is decided before the books have what is on the nodes: a ledger that is empty, or
    older than the cluster, would give the room of running pods away."""
    with core.order.hold():
        while not mirror.accounts_for_all:  # noqa: ASYNC110 - intake has a part in it
            await asyncio.sleep(HOLD_LOOK_SECONDS)
        last = mirror.reports.last
        while mirror.reports.recorded < last:  # noqa: ASYNC110 - the binder records them
            await asyncio.sleep(HOLD_LOOK_SECONDS)


async def _report_pods_forever(core: Coordinator, mirror: Mirror) -> None:
    """Have it told, on both sides, which victims are on their nodes longer than they may; and count
    what a deposed leader bound after all."""
    while True:
        late = core.victims.overdue.update(mirror.leaving.overdue(mirror.now), core.rows)
        core.order.nominations.overdue = frozenset(core.victims.overdue.rows())
        for pod in late:
            row = core.rows.get(pod.node, -1)
            core.observer.victim_overdue(pod, core.order.nominations.waiting_for(row))
        for bound in mirror.take_late():
            core.tally.late_binds += 1
            log.warning(
                "A leader before this one bound a pod: it is adopted there",
                pod=f"{bound.namespace}/{bound.name}",
                node=bound.node,
                statement=bound.statement,
            )
        await asyncio.sleep(PODS_LOOK_SECONDS)


async def _flush_forever(book: ShadowBook) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        book.flush()


def facts_of(core: Coordinator, intake: Intake) -> ShadowFacts:
    def queue(jid: int) -> str:
        state = core.order.known(jid)
        return "" if state is None else state.job.queue

    def reason(jid: int) -> str:
        state = core.order.jobs.get(jid)
        reason = None if state is None else why(core, state, names=intake.registry.slots.names)
        return "" if reason is None else f"{reason.reason}: {reason.message}"

    return ShadowFacts(queue=queue, why=reason)


def prebind_of(
    observed: ObservedCluster | None, core: Coordinator, intake: Intake, writer: IntakeWriter
) -> PreBind | None:
    """Provider of volumes and devices for claims; None in the shadow, which writes nothing."""
    if observed is None:
        return StoredPreBind(core, intake, writer)
    if observed.writes is None:
        return None
    mirror = observed.cluster.mirror
    return ApiPreBind(core, intake, writer, mirror=mirror, server=observed.writes)


def checks_of(observed: ObservedCluster | None) -> list[HealthCheck]:
    """Health checks of the cluster."""
    if observed is None or observed.writes is None:
        return []
    leases, binder, mirror = observed.writes.leases, observed.binder, observed.cluster.mirror
    checks = [
        HealthCheck("cluster_lease", lambda: leases.why, needed=False),
        HealthCheck("cluster_objects", lambda: _unread(mirror), needed=False),
    ]
    if binder is not None:
        checks.append(HealthCheck("kai_binder", lambda: binder.problem, needed=False))
    if (kinds := observed.native_kinds) is not None:
        checks.append(
            HealthCheck("native_groups", lambda: "", needed=False, note=lambda: kinds.text)
        )
    return checks


def _unread(mirror: Mirror) -> str:
    """Which objects are in quarantine; "" for none."""
    some = list(islice(mirror.quarantine.items(), _NAMED))
    named = [
        f"{key.kind} {'/'.join(filter(None, key[1:]))} ({type(unread.error).__name__})"
        for key, unread in some
    ]
    more = len(mirror.quarantine) - len(some)
    others = f" and {more} more" if more else ""
    return f"cannot be read, see their events: {', '.join(named)}{others}" if named else ""


def walls(observed: ObservedCluster | None) -> list[Middleware]:
    """Middlewares that refuse writes of objects that live in the cluster."""
    if observed is None:
        return []

    @web.middleware
    async def wall(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if request.method not in _READS and resource is not None:
            parts = resource.canonical.strip("/").split("/")
            if _writes_objects(parts):
                message = (
                    f"objects live in the Kubernetes cluster at {observed.address}: write them "
                    "there, with kubectl"
                )
                raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, message)
        return await handler(request)

    return [wall]


def _writes_objects(parts: list[str]) -> bool:
    """Whether the path is that of an object, of its part, or of lists of any."""
    group = "" if parts[0] == "api" else parts[1]
    if (group, parts[-1]) == ("quadrant.dev", "lists"):
        return True
    if parts[-1] in ("explain", "plans", "trace"):
        return False
    return any((group, part) in _OBJECTS for part in parts[2:])


class ApiPreBind:
    """Volumes and devices of a Kubernetes cluster, before binds go out: asked of its API server."""

    def __init__(
        self,
        core: Coordinator,
        intake: Intake,
        writer: AppliesWork,
        *,
        mirror: Mirror,
        server: ObjectServer,
    ) -> None:
        self._volumes = ApiVolumes(mirror, server)
        self._devices = ApiDevices(core, intake, writer, mirror=mirror, server=server)

    def asked(self, claim: str) -> bool:
        return self._volumes.asked(claim)

    async def bind_claims(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        return await self._volumes.bind(chosen)

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        return await self._devices.allocate(plan)

    async def free_forever(self) -> None:
        await self._devices.free_forever()
