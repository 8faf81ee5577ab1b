"""A client of an API server that is ours, by objects as people write them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from laboratory.local_kubernetes.errors import UnexpectedAnswer
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.sockets import sockets

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
SECONDS = 60.0
"""How long is waited for an answer that must come."""
_EVERY = 0.02
_PODS = "/api/v1/namespaces/default/pods"
_NO_CLASS = "no PriorityClass with name"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A kind as discovery tells it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str = "", name: str = "") -> str:
        """Path of an object, or of all objects: in a namespace, or in the whole cluster."""
        root = (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


class ApiClient:
    """``code`` is the status that an answer must have; None allows each."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self._resources: dict[tuple[str, str], ServedResource] = {}

    async def get(
        self, path: str, *, code: int = 200, accept: str = "application/json", **query: Any
    ) -> Json:
        """The JSON answer. Raises UnexpectedAnswer."""
        async with self.session.get(path, params=query, headers={"Accept": accept}) as answer:
            text = await answer.read()
        _must(answer.status, code, f"GET {path}", text)
        value: Json = orjson.loads(text)
        return value

    async def names(self, path: str, **query: Any) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(path, **query))["items"]]

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """A watch, whose content is an event a line. Raises UnexpectedAnswer."""
        async with self.session.get(path, params={"watch": "true"} | query) as answer:
            if answer.status != HTTPStatus.OK:
                _must(answer.status, HTTPStatus.OK, f"watch of {path}", await answer.read())
            yield answer

    async def resources(self) -> list[ServedResource]:
        """Resources that discovery lists now."""
        found: list[ServedResource] = []
        for root in ("/api", "/apis"):
            groups = (await self.get(root, accept=_AGGREGATED))["items"]
            for group in groups:
                for version in group["versions"]:
                    name = "/".join(
                        filter(None, (group["metadata"].get("name"), version["version"]))
                    )
                    found += [_resource(name, entry) for entry in version.get("resources", [])]
        self._resources = {(r.api_version, r.kind): r for r in found}
        return found

    async def resource(self, api_version: str, kind: str) -> ServedResource:
        key = api_version, kind
        if key not in self._resources:  # it may have been defined since
            await self.resources()
        return self._resources[key]

    async def path_of(self, item: Json) -> str:
        metadata = item["metadata"]
        resource = await self.resource(item["apiVersion"], item["kind"])
        return resource.path(_namespace(item), metadata["name"])

    async def create(self, *items: Json) -> list[Json]:
        """As stored; an object without a namespace goes to ``default``. Admission knows a priority
        class then: it hears of a new one a moment after it is stored."""
        stored = [await self.post(await self._collection(item), item, code=201) for item in items]
        for item in items:
            if item["kind"] == "PriorityClass":
                await self.until_admitted(item["metadata"]["name"])
        return stored

    async def until_admitted(self, priority_class: str) -> None:
        """Wait until pods may name a class."""
        spec = {
            "priorityClassName": priority_class,
            "containers": [{"name": "any", "image": "any"}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": spec}
        deadline = time.monotonic() + SECONDS
        while True:
            answer = await self.post(_PODS, pod, code=None, dryRun="All")
            if _NO_CLASS not in answer.get("message", ""):
                return
            if time.monotonic() > deadline:
                raise UnexpectedAnswer(f"PriorityClass {priority_class}: {answer['message']}")
            await asyncio.sleep(_EVERY)

    async def post(self, path: str, body: Json, *, code: int | None = 201, **query: str) -> Json:
        return await self.ask("POST", path, body, code=code, **query)

    async def put(self, path: str, body: Json, *, code: int | None = 200, **query: str) -> Json:
        return await self.ask("PUT", path, body, code=code, **query)

    async def patch(
        self, path: str, body: Any, *, form: str = MERGE_PATCH, code: int | None = 200, **query: str
    ) -> Json:
        return await self.ask("PATCH", path, body, form=form, code=code, **query)

    async def delete(
        self, path: str, *, code: int | None = 200, options: Json | None = None, **query: str
    ) -> Json:
        return await self.ask("DELETE", path, options, code=code, **query)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        form: str = "application/json",
        code: int | None = None,
        **query: str,
    ) -> Json:
        """The answer, which is a ``Status`` where it is an error."""
        data = None if body is None else orjson.dumps(body)
        async with self.session.request(
            method, path, data=data, params=query, headers={"Content-Type": form}
        ) as answer:
            text = await answer.read()
        _must(answer.status, code, f"{method} {path}", text)
        if answer.content_type != "application/json":  # a path that is not served, or a fault
            return {"kind": "Status", "code": answer.status, "message": text.decode()}
        value: Json = orjson.loads(text)
        return value

    async def bind(self, pod: Json, node: str, *, code: int | None = 201, **query: str) -> Json:
        """Bind the pod to the node, as a scheduler does."""
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.post(f"{await self.path_of(pod)}/binding", body, code=code, **query)

    async def until(self, path: str, holds: Callable[[Json], bool]) -> Json:
        """The first answer of this kind, errors included: ask until it comes."""
        deadline = time.monotonic() + SECONDS
        while not holds(answer := await self.ask("GET", path)):
            if time.monotonic() > deadline:
                raise UnexpectedAnswer(f"{path} stayed {answer}")
            await asyncio.sleep(_EVERY)
        return answer

    async def _collection(self, item: Json) -> str:
        resource = await self.resource(item["apiVersion"], item["kind"])
        return resource.path(_namespace(item))


@contextlib.asynccontextmanager
async def client_of(identity: Identity) -> AsyncIterator[ApiClient]:
    """Open a client with the rights of this identity."""
    async with (
        sockets() as make,
        aiohttp.ClientSession(
            identity.server,
            connector=aiohttp.TCPConnector(ssl=identity.tls(), limit=64, socket_factory=make),
            headers=identity.headers,
        ) as session,
    ):
        yield ApiClient(session)


def _must(status: int, code: int | None, what: str, text: bytes) -> None:
    if code is not None and status != code:
        raise UnexpectedAnswer(f"{what} is answered {status}: {text.decode(errors='replace')}")


def _namespace(item: Json) -> str:
    return str(item["metadata"].get("namespace", "default"))


def _resource(api_version: str, entry: Json) -> ServedResource:
    return ServedResource(
        api_version=api_version,
        kind=entry["responseKind"].get("kind", ""),
        plural=entry["resource"],
        namespaced=entry["scope"] == "Namespaced",
        verbs=frozenset(entry["verbs"]),
    )
