"""A hostile tenant during a chaos run: it sends everything that its tokens allow.

It has two tokens, one to view and one to submit to its own queues, and attacks in ways that a
review found to corrupt the ledger, to stall the service, or to keep others' small requests waiting.
Each attack is bounded in count and time, with a pause between two. Its answers do not matter as
long as there are some: what is judged are the others' promises and waiting times.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
import orjson

from laboratory.chaos import kai
from laboratory.workloads.bulk_client import BASE
from laboratory.workloads.demands import ask_own_nodes, ask_ports
from laboratory.workloads.generators import (
    CPU,
    LIST_LIMIT,
    Item,
    job_manifest,
    pod_manifest,
    pod_template,
    role_of,
)
from laboratory.workloads.manifests import kai_queue, manifest
from shared.manifests.kai.groups import GROUP_NAME

QUEUE = "tenant"
NAMESPACE = "tenant"
QUEUE_NAME, GROUP = "scheduling.volcano.sh/queue-name", "scheduling.k8s.io/group-name"

REST_SECONDS = 1.0
"""Pause between two attacks: the run tests the content of requests, not their rate."""

ANSWER_SECONDS = 20.0
"""Timeout of a request, long enough for a change of leader."""

PORT_PODS = 1_100
"""Pods with distinct host ports in one list. When a record grew by a slot per name, the ledger's
script failed half way from some 1,000 on."""
PORTS_OF_ONE = 3_000
"""Host ports of a single pod: the same attack by one object."""
OWN_TERM_JOBS = 200
"""Jobs that each keep away from their own label: every pair of rules between pods is another."""
NEEDS = 500
"""Pods with pairwise different requests."""
CONNECTIONS = 10
LIST_PODS, LISTS = 2_500, 2
"""Pods of a List, which is as long as lists may be, and how many are sent at a time."""
GANGS, GANG_WIDTH = 200, 64
"""Gangs of a plan, which may have no more, and the pods of each."""
MEMBERS, PATCHES = 500, 200
"""Members of a PodGroup, and how often it is changed while they run."""
STORM_JOBS, STORM_RETRIES = 50, 10
"""Jobs that begin anew whenever a pod fails, as all theirs do, and how often each may."""
QUEUES = 1_000
"""Queues of the tenant beside its own: each pick of a turn looks at all with jobs in line."""
DOCUMENT_BYTES = 1_000_000
HALF_SENT = 1_000
"""Connections that begin a request and never finish it."""
HALF_SENT_SECONDS = 3.0

DURATION = 0.2


@dataclass(slots=True)
class Hostile:
    """``urls``: of all coordinators. :meth:`run` attacks until it is cancelled."""

    urls: list[str]
    view: str
    """A token with role view."""
    submit: str
    """A token that may submit to the tenant's queues."""
    of_kai: bool = False
    """Whether it speaks KAI's words: the policy is one of KAI's. Its Jobs are Volcano's all the
    same, which KAI's queues take too."""
    first: int = 0
    """Number of the attack that it begins with; a short run does not come round to all."""
    answered: Counter[str] = field(default_factory=Counter)
    """Attack and HTTP status -> count; "no answer" for timeouts."""
    _round: int = 0
    _long_ago: str = ""
    """Version of the first list of pods that was read."""

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        connector = aiohttp.TCPConnector(limit=4 * CONNECTIONS)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            attacks = self._attacks()
            for at in itertools.count(self.first):
                attack = attacks[at % len(attacks)]
                self._round += 1
                await attack(session)
                await asyncio.sleep(REST_SECONDS)

    def _attacks(self) -> list[Callable[[aiohttp.ClientSession], Awaitable[None]]]:
        return [
            self._pods_with_a_port_each,
            self._documents,
            self._pod_with_many_ports,
            self._jobs_with_own_terms,
            self._half_sent,
            self._different_needs,
            self._watches_from_long_ago,
            self._from_another_site,
            self._what_is_not_its_own,
            self._large_lists,
            self._plans_of_gangs,
            self._patched_group,
            self._restart_storm,
            self._pods_in_many_queues,
        ]

    # --- what corrupted the ledger ------------------------------------------------------------

    async def _pods_with_a_port_each(self, session: aiohttp.ClientSession) -> None:
        pods = [self._pod(number) for number in range(PORT_PODS)]
        for number, pod in enumerate(pods):
            ask_ports(pod, [20_000 + number])
        await self._submit(session, "a port each", pods)

    async def _pod_with_many_ports(self, session: aiohttp.ClientSession) -> None:
        pod = self._pod(0)
        ask_ports(pod, range(10_000, 10_000 + PORTS_OF_ONE))
        await self._submit(session, "many ports", [pod])

    # --- what held up the service -------------------------------------------------------------

    async def _documents(self, session: aiohttp.ClientSession) -> None:
        """Post large documents of several shapes on several connections at a time."""
        async with asyncio.TaskGroup() as group:
            for _, body in zip(range(CONNECTIONS), itertools.cycle(documents()), strict=False):
                group.create_task(
                    self._post(session, "documents", f"{BASE}/plans", body, kind="application/yaml")
                )

    async def _jobs_with_own_terms(self, session: aiohttp.ClientSession) -> None:
        jobs = []
        for number in range(OWN_TERM_JOBS):
            name = self._name(number)
            template = pod_template(CPU, duration=DURATION, amount="10m")
            ask_own_nodes(template, name)
            roles = [role_of(2, template)]
            jobs.append(self._job(number, roles, minimum=2))
        await self._submit(session, "own terms", jobs)

    async def _different_needs(self, session: aiohttp.ClientSession) -> None:
        pods = [self._pod(number, cpu=f"{number + 1}m") for number in range(NEEDS)]
        await self._submit(session, "different needs", pods)

    async def _half_sent(self, session: aiohttp.ClientSession) -> None:
        del session  # below what a client library lets one do
        url = urlsplit(self._url)
        opened: list[asyncio.StreamWriter] = []
        try:
            for _ in range(HALF_SENT):
                async with asyncio.timeout(ANSWER_SECONDS):
                    _, writer = await asyncio.open_connection(url.hostname, url.port)
                writer.write(b"POST /api/v1/namespaces/tenant/pods HTTP/1.1\r\nHost: 127.0.0.1\r\n")
                opened.append(writer)
            await asyncio.sleep(HALF_SENT_SECONDS)
            self.answered["half sent: held"] += len(opened)
        except (OSError, TimeoutError):
            self.answered["half sent: turned away"] += 1
        finally:
            for writer in opened:
                writer.close()

    async def _watches_from_long_ago(self, session: aiohttp.ClientSession) -> None:
        """Have everything told that happened since the first round, on several connections."""
        sent = {"Authorization": f"Bearer {self.view}"}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"

        async def watch() -> None:
            query = {"watch": "true", "resourceVersion": self._long_ago, "timeoutSeconds": "1"}
            async with session.get(self._url + path, params=query, headers=sent) as answer:
                await answer.read()
                self.answered[f"old watch: {answer.status}"] += 1

        try:
            if not self._long_ago:
                async with session.get(self._url + path, headers=sent) as listed:
                    whole = orjson.loads(await listed.read())
                    self._long_ago = whole.get("metadata", {}).get("resourceVersion", "")
            async with asyncio.TaskGroup() as group:
                for _ in range(CONNECTIONS):
                    group.create_task(watch())
        except* (aiohttp.ClientError, TimeoutError):
            self.answered["old watch: no answer"] += 1

    # --- what others waited for ---------------------------------------------------------------

    async def _large_lists(self, session: aiohttp.ClientSession) -> None:
        async with asyncio.TaskGroup() as group:
            for first in range(0, LISTS * LIST_PODS, LIST_PODS):
                pods = [self._pod(number) for number in range(first, first + LIST_PODS)]
                group.create_task(self._submit(session, "large lists", pods))

    async def _plans_of_gangs(self, session: aiohttp.ClientSession) -> None:
        gangs = []
        for number in range(GANGS):
            roles = [role_of(GANG_WIDTH, pod_template(CPU, duration=DURATION, amount="1m"))]
            gangs.append(self._job(number, roles, minimum=GANG_WIDTH))
        body = orjson.dumps({"kind": "List", "apiVersion": "v1", "items": gangs})
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(self._post(session, "plans of gangs", f"{BASE}/plans", body))

    async def _patched_group(self, session: aiohttp.ClientSession) -> None:
        group, *pods = self.group_of_pods()
        await self._submit(session, "patched group", [group, *pods])
        name = group["metadata"]["name"]
        path = f"/apis/{group['apiVersion']}/namespaces/{NAMESPACE}/podgroups/{name}"
        remaining = iter(range(PATCHES))

        async def patch() -> None:
            for number in remaining:
                body = orjson.dumps({"spec": {"minMember": 1 + number % 2}})
                await self._send(
                    session,
                    "PATCH",
                    "patched group",
                    path,
                    body,
                    kind="application/merge-patch+json",
                )

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(patch())

    async def _restart_storm(self, session: aiohttp.ClientSession) -> None:
        policy = {"event": "PodFailed", "action": "RestartJob"}
        jobs = []
        for number in range(STORM_JOBS):
            template = pod_template(CPU, duration=0.01, amount="10m")
            template["metadata"]["annotations"]["quadrant.dev/exit-code"] = "1"
            job = self._job(number, [role_of(4, template)], minimum=1)
            job["spec"] |= {"policies": [policy], "maxRetry": STORM_RETRIES}
            jobs.append(job)
        await self._submit(session, "restart storm", jobs)

    async def _pods_in_many_queues(self, session: aiohttp.ClientSession) -> None:
        await self._submit(session, "many queues", self.pods_in_many_queues())

    # --- what it may not ----------------------------------------------------------------------

    async def _from_another_site(self, session: aiohttp.ClientSession) -> None:
        """Requests as from a page in a browser: from another site without a Content-Type, then for
        another host."""
        body = orjson.dumps(self._pod(0))
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        elsewhere = {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"}
        await self._post(session, "another site", path, body, kind="", headers=elsewhere)
        rebound = {"Host": "elsewhere.example"}
        await self._post(session, "another host", path, body, headers=rebound)

    async def _what_is_not_its_own(self, session: aiohttp.ClientSession) -> None:
        pods = [self._pod(number) for number in range(3)]
        pods[0]["spec"]["priorityClassName"] = "system-node-critical"
        pods[1] = self._pod(1, queue="default")
        key = "node-role.kubernetes.io/control-plane"
        pods[2]["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]
        await self._submit(session, "not its own", pods)

    # --- requests -----------------------------------------------------------------------------

    async def _submit(self, session: aiohttp.ClientSession, attack: str, items: list[Item]) -> None:
        """Submit everything in one request, since the limit on lists is tested too."""
        body = orjson.dumps({"kind": "List", "apiVersion": "v1", "items": items})
        status = await self._post(session, attack, f"{BASE}/lists", body)
        if status == 413 and len(items) > LIST_LIMIT:
            for part in _parts(items):
                body = orjson.dumps({"kind": "List", "apiVersion": "v1", "items": part})
                await self._post(session, attack, f"{BASE}/lists", body)

    async def _post(
        self,
        session: aiohttp.ClientSession,
        attack: str,
        path: str,
        body: bytes,
        *,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> int:
        """The HTTP status; 0 without an answer."""
        return await self._send(session, "POST", attack, path, body, kind=kind, headers=headers)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        attack: str,
        path: str,
        body: bytes,
        *,
        kind: str,
        headers: dict[str, str] | None = None,
    ) -> int:
        """To the next coordinator where one does not lead."""
        token = self.view if path.endswith("/plans") else self.submit
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        if kind:
            sent["Content-Type"] = kind
        status = 0
        for url in self._from_present():
            try:
                async with session.request(
                    method,
                    url + path,
                    data=body,
                    headers=sent,
                    skip_auto_headers=() if kind else ("Content-Type",),
                ) as response:
                    await response.read()
                    status = response.status
            except (aiohttp.ClientError, TimeoutError):
                status = 0
            self.answered[f"{attack}: {status or 'no answer'}"] += 1
            if status != HTTPStatus.SERVICE_UNAVAILABLE:
                break
        return status

    def _from_present(self) -> list[str]:
        """All addresses, the present one first."""
        at = self._round % len(self.urls)
        return [*self.urls[at:], *self.urls[:at]]

    @property
    def _url(self) -> str:
        return self._from_present()[0]

    # --- objects ------------------------------------------------------------------------------

    def _name(self, number: int) -> str:
        return f"hostile-{self._round}-{number}"

    def pods_in_many_queues(self) -> list[Item]:
        return [self._pod(number, queue=name) for number, name in enumerate(queue_names())]

    def group_of_pods(self) -> list[Item]:
        """A PodGroup and its pods."""
        name = self._name(0)
        if self.of_kai:
            group = kai.pod_group(name, 1, namespace=NAMESPACE, queue=QUEUE)
        else:
            spec = {"minMember": 1, "queue": QUEUE}
            group = manifest("PodGroup", name, spec, namespace=NAMESPACE)
        pods = [self._pod(number, cpu="1m", duration=2.0) for number in range(1, MEMBERS)]
        for pod in pods:
            pod["metadata"]["annotations"][GROUP_NAME if self.of_kai else GROUP] = name
        return [group, *pods]

    def _job(self, number: int, roles: list[Item], *, minimum: int) -> Item:
        name = self._name(number)
        return job_manifest(name, roles, minimum=minimum, namespace=NAMESPACE, queue=QUEUE)

    def _pod(
        self, number: int, *, cpu: str = "10m", duration: float = DURATION, queue: str = QUEUE
    ) -> Item:
        template = pod_template(CPU, duration=duration, amount=cpu)
        if self.of_kai:
            return kai.pod(self._name(number), template, namespace=NAMESPACE, queue=queue)
        chosen = {QUEUE_NAME: queue}
        return pod_manifest(self._name(number), template, namespace=NAMESPACE, annotations=chosen)


def documents() -> list[bytes]:
    """YAML documents of the maximum size, each slow to parse in another way."""
    many_keys = b"".join(b"k%d: {a: [1, 2, 3], b: x}\n" % number for number in range(60_000))
    deep = b"a: " + b"[" * 200 + b"]" * 200 + b"\n"
    items = (
        b"kind: List\napiVersion: v1\nitems:\n" + b"- {kind: Pod, metadata: {name: x}}\n" * 60_000
    )
    aliases = b"a: &a [x, x, x]\nb:\n" + b"- *a\n" * 400_000
    shapes = (many_keys, deep * (DOCUMENT_BYTES // len(deep)), items, aliases)
    return [shape[:DOCUMENT_BYTES].rsplit(b"\n", 1)[0] + b"\n" for shape in shapes]


def queue_names() -> list[str]:
    """The tenant's queues beside its own."""
    return [f"{QUEUE}-{number}" for number in range(QUEUES)]


def queues(*, of_kai: bool = False) -> list[Item]:
    """All queues of the tenant; KAI's are below one that is above all."""
    names = (QUEUE, *queue_names())
    if of_kai:
        return [kai_queue(name, kai.ROOT) for name in names]
    return [manifest("Queue", name, {"weight": 1}) for name in names]


def _parts(items: list[Item]) -> Iterator[list[Item]]:
    for at in range(0, len(items), LIST_LIMIT):
        yield items[at : at + LIST_LIMIT]
