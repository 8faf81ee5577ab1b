"""Objects over HTTP, the half that writes: create, replace, patch, apply and delete one object.

Each request becomes one function of the newest object, run by the single writer of intake between
all other changes, so that no two authors can overwrite each other unseen.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.intake import Admission
from coordinator.intake_writer import Changed, IntakeFull, Make
from coordinator.kube.answers import json_answer
from coordinator.kube.bodies import APPLY, RETRY_AFTER, Bodies, object_of, patch_of
from coordinator.kube.changing import (
    Author,
    Now,
    check_deletion,
    created,
    identified,
    named,
    patched,
    replaced,
)
from coordinator.kube.dryrun import preview
from coordinator.kube.options import (
    Options,
    manager_is_required,
    read_deletion,
    read_options,
)
from coordinator.kube.problems import Problem
from coordinator.kube.refusals import of_refusal, warning
from coordinator.objects.document import Document, Key
from coordinator.objects.kinds import KINDS, Kind
from coordinator.objects.times import rfc3339

STORE_SECONDS = 25.0
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes: no vowels and nothing that looks like another."""
_SUFFIX_LENGTH = 5
_MOST_WARNINGS = 20


class Writer(Protocol):
    def change(self, key: Key, make: Make, *, dry_run: bool = False) -> Awaitable[Changed]: ...


class Shown(Protocol):
    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None: ...

    def document(self, key: Key) -> Document | None:
        """With the version at which it was written last."""
        ...


May = Callable[[web.Request, Kind, Mapping[str, Any]], None]
"""May the principal of a request write (or delete) this object? Raises Problem."""


def everybody(request: web.Request, kind: Kind, obj: Mapping[str, Any]) -> None:
    """Nobody is turned away."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What stands behind the handlers."""

    writer: Writer
    objects: Shown
    may: May = everybody
    bodies: Bodies = field(default_factory=Bodies)
    clock: Callable[[], float] = time.time
    store_seconds: float = STORE_SECONDS

    async def create(self, request: web.Request, kind: Kind) -> web.Response:
        options = read_options(request)
        namespace = request.match_info.get("namespace", "")
        sent = object_of(await self.bodies.read(request), request.content_type)
        obj = named(identified(sent, kind, namespace, None), _suffix)
        author = self._author(options)
        key = Key(kind.kind, namespace, str(obj["metadata"]["name"]))

        def make(before: Document | None) -> dict[str, Any]:
            self.may(request, kind, obj)
            return created(self._now(kind, key, before), obj, kind, author)

        changed = await self._change(kind, key, make, options.dry_run)
        return self._answer(kind, key, changed, options.dry_run)

    async def replace(self, request: web.Request, kind: Kind) -> web.Response:
        options = read_options(request)
        key = _key(request, kind)
        sent = object_of(await self.bodies.read(request), request.content_type)
        obj = identified(sent, kind, key.namespace, key.name)
        author = self._author(options)

        def make(before: Document | None) -> dict[str, Any]:
            self._may_both(request, kind, before, obj)
            return replaced(self._now(kind, key, before), obj, kind, author)

        changed = await self._change(kind, key, make, options.dry_run)
        return self._answer(kind, key, changed, options.dry_run)

    async def patch(self, request: web.Request, kind: Kind) -> web.Response:
        options = read_options(request)
        language = request.content_type
        if language == APPLY and not options.named:
            raise manager_is_required()
        key = _key(request, kind)
        sent = patch_of(await self.bodies.read(request), language)
        author = self._author(options)

        def make(before: Document | None) -> dict[str, Any]:
            now = self._now(kind, key, before)
            obj = patched(now, sent, kind, author, key=key, language=language)
            self._may_both(request, kind, before, obj)
            return obj

        changed = await self._change(kind, key, make, options.dry_run)
        return self._answer(kind, key, changed, options.dry_run)

    async def delete(self, request: web.Request, kind: Kind) -> web.Response:
        options = read_options(request)
        key = _key(request, kind)
        body = await self.bodies.read(request)
        said = object_of(body, request.content_type) if body.strip() else {}
        deletion = read_deletion(said, dry_run=options.dry_run)

        def make(before: Document | None) -> None:
            now = self._now(kind, key, before)
            check_deletion(now, kind, key.name, uid=deletion.uid, version=deletion.version)
            if before is not None:
                self.may(request, kind, before.object())

        changed = await self._change(kind, key, make, deletion.dry_run)
        live = self.objects.get(kind, key.namespace, key.name)
        if live is not None and not deletion.dry_run and changed.after is not None:
            return json_answer(live)  # on its way out: marked, until nothing of it is left
        return json_answer(_success(kind, key, changed.before))

    # --- parts --------------------------------------------------------------------------------

    def _now(self, kind: Kind, key: Key, before: Document | None) -> Now:
        written = self.objects.document(key)
        live = self.objects.get(kind, key.namespace, key.name)
        return Now(before, live, 0 if written is None else written.version)

    def _author(self, options: Options) -> Author:
        return Author(options.manager, rfc3339(self.clock()), options.force)

    def _may_both(
        self, request: web.Request, kind: Kind, before: Document | None, obj: dict[str, Any]
    ) -> None:
        """Moving an object out of a queue needs the right to both."""
        if before is not None:
            self.may(request, kind, before.object())
        self.may(request, kind, obj)

    async def _change(self, kind: Kind, key: Key, make: Make, dry_run: bool) -> Changed:
        try:
            async with asyncio.timeout(self.store_seconds):
                changed = await self.writer.change(key, make, dry_run=dry_run)
        except IntakeFull as error:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                f"{error}; send it again after the time in Retry-After",
                retry_after=RETRY_AFTER,
            ) from error
        except TimeoutError as error:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "not stored in time, but it may still be; read it before you send it again",
                retry_after=RETRY_AFTER,
            ) from error
        if changed.admission.refused:
            exists = changed.before is not None
            raise of_refusal(kind, key.name, changed.admission.refused[0], exists=exists)
        return changed

    def _answer(self, kind: Kind, key: Key, changed: Changed, dry_run: bool) -> web.Response:
        live = self.objects.get(kind, key.namespace, key.name)
        obj = live
        if changed.after is not None and (dry_run or live is None):
            obj = preview(changed.after, changed.before, live)
        new = changed.before is None
        answer = json_answer(obj, status=HTTPStatus.CREATED if new else HTTPStatus.OK)
        for text in _warnings(changed.admission):
            answer.headers.add("Warning", text)
        return answer


def _warnings(admission: Admission) -> list[str]:
    return [warning(notice) for notice in admission.notices[:_MOST_WARNINGS]]


def _key(request: web.Request, kind: Kind) -> Key:
    return Key(
        kind.kind, request.match_info.get("namespace", ""), request.match_info.get("name", "")
    )


def _suffix() -> str:
    return "".join(secrets.choice(_SUFFIX) for _ in range(_SUFFIX_LENGTH))


def _success(kind: Kind, key: Key, before: Document | None) -> dict[str, Any]:
    details = {"name": key.name, "kind": kind.plural}
    if kind.group:
        details["group"] = kind.group
    if before is not None:
        details["uid"] = before.uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


# --- routes -----------------------------------------------------------------------------------


def write_routes(door: Writing) -> list[web.RouteDef]:
    routes = []
    for kind in KINDS:
        many = _path(kind)
        one = many + "/{name}"
        if "create" in kind.verbs:
            routes += [
                web.post(many, _handler(door, Writing.create, kind)),
                web.put(one, _handler(door, Writing.replace, kind)),
                web.patch(one, _handler(door, Writing.patch, kind)),
                web.delete(one, _handler(door, Writing.delete, kind)),
            ]
        else:
            no = _read_only(kind)
            routes.append(web.post(many, no))
            routes += [web.put(one, no), web.patch(one, no), web.delete(one, no)]
    return routes


def _path(kind: Kind) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return (
        f"{base}/namespaces/{{namespace}}/{kind.plural}"
        if kind.namespaced
        else (f"{base}/{kind.plural}")
    )


def _handler(
    door: Writing,
    method: Callable[[Writing, web.Request, Kind], Awaitable[web.Response]],
    kind: Kind,
) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        with door.bodies.take(request):
            return await method(door, request, kind)

    return handler


_EXPLAINED = {
    "Namespace": "a namespace exists as soon as an object names it; none is created or deleted",
    "Event": "events are written by the scheduler",
    "Shard": "shards are made from the settings; see quadrant config show",
}


def _read_only(kind: Kind) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        why = _EXPLAINED.get(kind.kind, "it can only be read")
        raise Problem(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            f"{request.method} is not possible on {kind.resource}: {why}",
            kind=kind.plural,
            group=kind.group,
            allow=("GET", "HEAD"),
        )

    return handler
