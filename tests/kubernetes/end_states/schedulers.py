"""The surroundings of a walk, and the scheduler in them: Quadrant or the real one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.kubelets import HollowKubelets
from tests.builders.objects import kube_object
from tests.kubernetes import controllers
from tests.kubernetes.controllers import beside
from tests.kubernetes.definitions import install_kai, install_volcano
from tests.kubernetes.driver.harness import Followed, followed
from tests.kubernetes.driver.kai.binder import RESERVATIONS, KaiBinder
from tests.kubernetes.driver.kai.objects import beside_binder
from tests.kubernetes.end_states import fields, kai_walks, volcano_walks
from tests.kubernetes.end_states.walk import Fields, Stage, Walk
from tests.kubernetes.servers.build import KAI, VOLCANO

GROUP_WAIT = 30.0
"""Seconds that a pod waits for its group: these controllers always name one."""


class Peer(StrEnum):
    """Projects whose scheduler Quadrant replaces."""

    VOLCANO = "Volcano"
    KAI = "KAI"

    @property
    def walks(self) -> tuple[Walk, ...]:
        return volcano_walks.WALKS if self is Peer.VOLCANO else kai_walks.WALKS

    @property
    def version(self) -> str:
        return (VOLCANO if self is Peer.VOLCANO else KAI).version

    async def read(self, cluster: ApiClient) -> Fields:
        read = fields.of_volcano if self is Peer.VOLCANO else fields.of_kai
        return await read(cluster)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Servers and a folder for the programs of one walk."""

    plane: ControlPlane
    cluster: ApiClient
    folder: Path
    ledger: str
    """Address of an empty one."""


STOP_SECONDS = 1.0
"""From a pod's deletion to its end. At 0 a victim may be gone before its scheduler has said why."""


@contextlib.asynccontextmanager
async def stage(
    around: Surroundings, peer: Peer, walk: Walk, *, real: bool
) -> AsyncIterator[Stage]:
    """The controllers and a scheduler, which is the peer's own where ``real`` says so."""
    kubelets = HollowKubelets(around.cluster, stop_seconds=STOP_SECONDS)
    plane, policy = around.plane, around.folder / "walk.yaml"
    policy.write_text(walk.policy)
    async with contextlib.AsyncExitStack() as stack:
        if peer is Peer.VOLCANO:
            await install_volcano(around.cluster)
            commands = [controllers.volcano(plane)]
            own = controllers.volcano_scheduler(plane, policy)
        else:
            await install_kai(around.cluster)
            await around.cluster.create(kube_object("v1", "Namespace", RESERVATIONS))
            commands = controllers.kai(plane)
            own = controllers.kai_scheduler(plane)
            binder = KaiBinder(plane, around.cluster, plane.admin)
            await stack.enter_async_context(_following(binder.name_devices()))
            commands.append(controllers.kai_binder(plane.admin.kubeconfig))
        commands.append(controllers.kubernetes(plane))
        if real:
            commands.append(own)
        stack.enter_context(beside(plane, *commands))
        await stack.enter_async_context(_following(kubelets.run()))
        if not real:
            await stack.enter_async_context(_quadrant(around, peer, policy))
        yield Stage(around.cluster, kubelets)


def _quadrant(
    around: Surroundings, peer: Peer, policy: Path
) -> AbstractAsyncContextManager[Followed]:
    ledger, folder, kubeconfig = around.ledger, around.folder, around.plane.admin.kubeconfig
    if peer is Peer.KAI:
        return beside_binder(ledger, folder, around.cluster, kubeconfig, group_wait=GROUP_WAIT)
    return followed(
        ledger,
        folder,
        around.cluster,
        kubeconfig,
        policy=policy,
        scheduler_names="volcano",
        group_wait=GROUP_WAIT,
    )


@contextlib.asynccontextmanager
async def _following(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()
