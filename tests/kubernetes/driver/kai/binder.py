"""KAI's binder as a process, and a hollow kubelet of the pods that it reserves GPUs by."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from http import HTTPStatus

import orjson

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.kubelets import changes, path_of
from laboratory.local_kubernetes.server_process import ServerProcess
from tests.kubernetes.controllers import kai_binder
from tests.kubernetes.driver.harness import until
from tests.kubernetes.driver.kai.objects import GROUP, Json

RESERVATIONS = "kai-resource-reservation"
_PODS = f"/api/v1/namespaces/{RESERVATIONS}/pods"
_INDEX = "run.ai/reserve_for_gpu_index"


class KaiBinder:
    """Started under an identity of which no other program binds pods."""

    def __init__(self, plane: ControlPlane, client: ApiClient, identity: Identity) -> None:
        self._client = client
        self._log = plane.audit_log
        self._log_begin = plane.audit_log.stat().st_size
        self.process = ServerProcess(kai_binder(identity.kubeconfig), plane.folder)

    def pause(self) -> None:
        """Have it stand still, as on a machine without a core for it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def attempts(self) -> list[tuple[str, str, int]]:
        """(pod, node, code of the answer) of each binding that was asked for, in order."""
        with self._log.open("rb") as log:
            log.seek(self._log_begin)
            # The last line may still be on its way.
            lines = (line for line in log if b'"binding"' in line and line.endswith(b"\n"))
            entries = [orjson.loads(line) for line in lines]
        return [
            (
                entry["objectRef"]["name"],
                entry["requestObject"]["target"]["name"],
                entry["responseStatus"]["code"],
            )
            for entry in entries
        ]

    async def until_bound(self, count: int) -> list[tuple[str, str]]:
        """(pod, node) of each binding that the API server accepted, in order, once it has logged so
        many: a pod is seen to be bound before the log has the answer to its binding."""

        def accepted() -> list[tuple[str, str]] | None:
            attempts = self.attempts()
            bound = [(pod, node) for pod, node, code in attempts if code == HTTPStatus.CREATED]
            return bound if len(bound) >= count else None

        bound: list[tuple[str, str]] = await until(accepted)
        return bound

    async def reservations(self) -> list[Json]:
        items: list[Json] = (await self._client.get(_PODS))["items"]
        return items

    async def name_devices(self) -> None:
        """Write on each reservation which GPU it has, as the program in its container does.

        A reservation replaces an earlier one of its group. The binder makes another at each attempt
        while its cache lacks the one before, and later deletes one alone: the rest would hold their
        GPUs for ever (decision 92).
        """
        devices: defaultdict[str, dict[str, int]] = defaultdict(dict)
        groups: dict[str, Json] = {}
        async for kind, pod in changes(self._client, _PODS):
            taken, group = devices[pod["spec"]["nodeName"]], pod["metadata"]["labels"][GROUP]
            name = pod["metadata"]["name"]
            if kind == "DELETED":
                taken.pop(name, None)
            elif name not in taken:
                if (earlier := groups.get(group)) is not None:
                    await self._client.delete(path_of(earlier), code=None, gracePeriodSeconds="0")
                groups[group] = pod
                taken[name] = min(set(range(len(taken) + 1)) - set(taken.values()))
                note = {"metadata": {"annotations": {_INDEX: str(taken[name])}}}
                await self._client.patch(path_of(pod), note, code=None)
