"""Handlers that write one object: create, replace, patch, apply and delete.

Each request becomes a function of the newest object. Intake's single writer runs it between all
other changes, so that two authors cannot overwrite each other unnoticed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.change.authored import with_added
from coordinator.api.change.bodies import (
    APPLY,
    RETRY_AFTER,
    SMALL_JSON,
    Bodies,
    bad,
    is_small,
    object_of,
    unreadable,
)
from coordinator.api.change.change import (
    Author,
    ChangeRequest,
    CurrentObject,
    Verb,
    check_deletion,
    check_free,
)
from coordinator.api.change.options import (
    Deletion,
    Options,
    manager_is_required,
    read_deletion,
    read_options,
)
from coordinator.api.change.refusals import conflict, modified, of_refusal, warning
from coordinator.api.http.responses import json_answer
from coordinator.api.parser.pool import Parsers
from coordinator.api.parser.tasks import write_request
from coordinator.api.write.bulk import random_suffix
from coordinator.api.write.evictions import EVICTED, PATH, JobPods, options_of, refusal
from coordinator.api.write.ports import (
    Evictor,
    PermissionCheck,
    PublishedObjects,
    Writer,
    everybody,
)
from coordinator.core.pod_evictions import Action
from coordinator.errors import Problem
from coordinator.intake.admission.result import Admission
from coordinator.intake.admission.step import Notice
from coordinator.intake.documents.document import Document, Key, implied_namespace
from coordinator.intake.documents.kinds import (
    JOB,
    KINDS,
    NAMESPACE,
    POD,
    POD_GROUPS,
    Kind,
)
from coordinator.intake.writer import ChangeResult, IntakeFull, Make
from shared.manifests.text.errors import TextError
from shared.units.times import rfc3339

STORE_SECONDS = 25.0
TRIES = 5
"""Maximum attempts for a large object that changes meanwhile; then its author gets an error."""
_MOST_WARNINGS = 20
_ALWAYS = "nobody created it: it exists as long as an object is in it, and default always"
_WITH_PODS = (JOB, *POD_GROUPS)
"""Kinds that are deleted with all their pods."""
_OBJECTS_STAY = "objects in this namespace stay, and it is shown until they are gone; delete them"


@dataclass(frozen=True, slots=True)
class WriteDependencies:
    """The dependencies of the handlers."""

    writer: Writer
    objects: PublishedObjects
    may: PermissionCheck = everybody
    bodies: Bodies = field(default_factory=Bodies)
    parsers: Parsers = field(default_factory=Parsers)
    evictor: Evictor | None = None
    """None: pods of Jobs can be neither evicted nor deleted."""
    clock: Callable[[], float] = time.time
    store_seconds: float = STORE_SECONDS

    @property
    def _evictions(self) -> JobPods:
        return JobPods(self.evictor, self.objects, self.may)

    async def create(self, request: web.Request, kind: Kind) -> web.Response:
        return await self._write(request, kind, Verb.CREATE)

    async def replace(self, request: web.Request, kind: Kind) -> web.Response:
        return await self._write(request, kind, Verb.REPLACE)

    async def patch(self, request: web.Request, kind: Kind) -> web.Response:
        return await self._write(request, kind, Verb.PATCH)

    async def _write(self, request: web.Request, kind: Kind, verb: Verb) -> web.Response:
        options = read_options(request)
        if verb is Verb.PATCH and request.content_type == APPLY and not options.named:
            raise manager_is_required()
        wish = ChangeRequest(
            verb,
            kind,
            request.match_info.get("namespace", ""),
            request.match_info.get("name", ""),
            language=request.content_type,
            author=self._author(options),
            suffix=random_suffix(),
        )
        body = await self.bodies.read(request)
        stored = self.objects.document(Key(kind.kind, wish.namespace, wish.name))
        besides = 0 if stored is None or verb is Verb.CREATE else len(stored.body)
        # With the stored object: a patch of a few bytes on a large object takes as long as the
        # object is large.
        if is_small(body, wish.language, besides=besides):
            key, changed = await self._at_once(request, wish, body, options)
        else:
            key, changed = await self._apart(request, wish, body, options)
        return self._answer(kind, key, changed, options.dry_run)

    async def _at_once(
        self, request: web.Request, wish: ChangeRequest, body: bytes, options: Options
    ) -> tuple[Key, ChangeResult]:
        """Small object: the writer itself computes it from the newest one."""
        sent = wish.sent(body)
        key = _key(wish, sent)

        def make(before: Document | None) -> dict[str, Any]:
            if wish.verb is Verb.CREATE:
                self.may(request, wish.kind, sent)
            obj = wish.made(sent, self._now(wish.kind, key, before))
            if wish.verb is not Verb.CREATE:
                old = None if before is None else before.object()
                self._may_both(request, wish.kind, old, obj)
            return obj

        return key, await self._change(wish.kind, key, make, options.dry_run)

    async def _apart(
        self, request: web.Request, wish: ChangeRequest, body: bytes, options: Options
    ) -> tuple[Key, ChangeResult]:
        """Large object: a process computes it from the current one.

        If that has changed when the writer's turn comes, it is recomputed, as a Kubernetes API
        server does. Parsing a stored object of this size is the longest single step (2 ms, or 16
        where fresh memory is slow). So it is parsed once per purpose, each in its own callback, and
        never by the writer.
        """
        for _ in range(TRIES):
            now, old = CurrentObject(None, None), None
            if wish.verb is not Verb.CREATE:
                key = Key(wish.kind.kind, wish.namespace, wish.name)
                now = self._now(wish.kind, key, self.objects.document(key))
                await asyncio.sleep(0)
                old = None if now.before is None else now.before.object()
                await asyncio.sleep(0)
            try:
                (obj,) = await self.parsers.ask(*write_request(wish, body, now))
            except TextError as error:
                raise unreadable(error) from error
            key = _key(wish, obj)
            if wish.verb is Verb.CREATE:
                make = self._if_free(request, wish, obj)
            else:
                make = self._if_still(request, wish, obj, was=now, old=old)
            try:
                return key, await self._change(wish.kind, key, make, options.dry_run)
            except _ObjectChanged:
                continue
        raise modified(wish.kind, wish.name)

    def _if_free(self, request: web.Request, wish: ChangeRequest, obj: dict[str, Any]) -> Make:
        """Store a new object if the name is free."""

        def make(before: Document | None) -> dict[str, Any]:
            self.may(request, wish.kind, obj)
            key = _key(wish, obj)
            check_free(self._now(wish.kind, key, before), wish.kind, key.name)
            return obj

        return make

    def _if_still(
        self,
        request: web.Request,
        wish: ChangeRequest,
        obj: dict[str, Any],
        *,
        was: CurrentObject,
        old: dict[str, Any] | None,
    ) -> Make:
        """Store an object that was computed from ``was``, if that is unchanged. ``old``: its
        document, parsed."""

        def make(before: Document | None) -> dict[str, Any]:
            version = self.objects.version_of(wish.kind, wish.namespace, wish.name)
            # The document for what its author wrote, the version for what the scheduler shows of
            # it: the new object was computed from both.
            if _content(before) != _content(was.before) or version != _version(was.live):
                raise _ObjectChanged
            self._may_both(request, wish.kind, old, obj)
            return obj

        return make

    async def delete(self, request: web.Request, kind: Kind) -> web.Response:
        options = read_options(request)
        key = Key(
            kind.kind, request.match_info.get("namespace", ""), request.match_info.get("name", "")
        )
        body = await self.bodies.read(request)
        if len(body) > SMALL_JSON:
            raise bad(f"options of a deletion have at most {SMALL_JSON} bytes; send less")
        options_sent = object_of(body, request.content_type) if body.strip() else {}
        deletion = read_deletion(options_sent, dry_run=options.dry_run)
        if deletion.orphans and kind in _WITH_PODS:
            raise bad(f"the pods of a {kind.written} are deleted with it: leave Orphan out")
        return await self._delete(request, kind, key, deletion)

    async def _delete(
        self, request: web.Request, kind: Kind, key: Key, deletion: Deletion
    ) -> web.Response:
        if kind is POD and (live := self._evictions.job_pod(key)) is not None:
            await self._evictions.evict(request, key, live, deletion, Action.DELETE)
            return json_answer(_success(kind, key, live["metadata"]["uid"]))

        def make(before: Document | None) -> None:
            now = self._now(kind, key, before)
            check_deletion(now, kind, key.name, uid=deletion.uid, version=deletion.version)
            if before is not None:
                # As it is: a tenant may delete a job in its queue, whoever gave it its system class
                # (decision 0044).
                self.may(request, kind, before.object(), as_it_is=True)
            elif kind is NAMESPACE:
                raise conflict(kind, key.name, _ALWAYS)

        changed = await self._change(kind, key, make, deletion.dry_run)
        live = self.objects.get(kind, key.namespace, key.name)
        if live is not None and not deletion.dry_run and changed.after is not None:
            return json_answer(live)  # on its way out: marked, until nothing of it is left
        uid = None if changed.before is None else changed.before.uid
        answer = json_answer(_success(kind, key, uid))
        if live is not None and kind is NAMESPACE and not deletion.dry_run:
            answer.headers.add("Warning", warning(Notice(kind.kind, key.name, _OBJECTS_STAY)))
        return answer

    async def evict(self, request: web.Request, kind: Kind) -> web.Response:
        """``POST .../pods/NAME/eviction``."""
        assert self.evictor is not None, "without it there is no route"
        options = read_options(request)
        key = Key(kind.kind, request.match_info["namespace"], request.match_info["name"])
        body = await self.bodies.read(request)
        if len(body) > SMALL_JSON:
            raise bad(f"an Eviction has at most {SMALL_JSON} bytes; send less")
        sent = object_of(body, request.content_type) if body.strip() else {}
        deletion = read_deletion(options_of(sent, key), dry_run=options.dry_run)
        if (live := self._evictions.job_pod(key)) is not None:
            await self._evictions.evict(request, key, live, deletion, Action.EVICT)
        else:
            task = self.evictor.task_of(key.namespace, key.name)
            refused = None if task is None else self.evictor.budgets_allow(task)
            if refused is not None:
                raise refusal(refused, key)
            await self._delete(request, kind, key, deletion)
        return json_answer(EVICTED, status=HTTPStatus.CREATED)

    # --- parts --------------------------------------------------------------------------------

    def _now(self, kind: Kind, key: Key, before: Document | None) -> CurrentObject:
        written = self.objects.document(key)
        live = self.objects.get(kind, key.namespace, key.name)
        if before is None and live is not None and kind is NAMESPACE:
            before = implied_namespace(key)
        return CurrentObject(before, live, 0 if written is None else written.version)

    def _author(self, options: Options) -> Author:
        return Author(options.manager, rfc3339(self.clock()), options.force)

    def _may_both(
        self, request: web.Request, kind: Kind, old: dict[str, Any] | None, obj: dict[str, Any]
    ) -> None:
        """Check the rights to the old and the new object: a move between queues needs both."""
        if old is not None:
            self.may(request, kind, old, as_it_is=True)
        self.may(request, kind, obj)

    async def _change(self, kind: Kind, key: Key, make: Make, dry_run: bool) -> ChangeResult:
        try:
            async with asyncio.timeout(self.store_seconds):
                changed = await self.writer.change(key, make, dry_run=dry_run)
        except IntakeFull as error:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{error}; send it again after the time in Retry-After",
                retry_after=RETRY_AFTER,
            ) from error
        except TimeoutError as error:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "not stored in time, but it may still be; read it before you send it again",
                retry_after=RETRY_AFTER,
            ) from error
        if changed.admission.refused:
            exists = changed.before is not None
            raise of_refusal(kind, key.name, changed.admission.refused[0], exists=exists)
        return changed

    def _answer(self, kind: Kind, key: Key, changed: ChangeResult, dry_run: bool) -> web.Response:
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


class _ObjectChanged(Exception):
    """The object changed since the new one was computed from it."""


def _key(wish: ChangeRequest, obj: dict[str, Any]) -> Key:
    name = str(obj["metadata"]["name"]) if wish.verb is Verb.CREATE else wish.name
    return Key(wish.kind.kind, wish.namespace, name)


def _content(document: Document | None) -> Document | None:
    """The document without its version: published documents have one, intake's do not."""
    return None if document is None else document.at(0)


def _version(live: dict[str, Any] | None) -> str | None:
    return None if live is None else str(live["metadata"].get("resourceVersion", ""))


def _success(kind: Kind, key: Key, uid: str | None) -> dict[str, Any]:
    details = {"name": key.name, "kind": kind.plural}
    if kind.group:
        details["group"] = kind.group
    if uid is not None:
        details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


# --- routes -----------------------------------------------------------------------------------


def write_routes(door: WriteDependencies) -> list[web.RouteDef]:
    routes = []
    for kind in KINDS:
        many = _path(kind)
        single = many + "/{name}"
        if "create" in kind.verbs:
            routes += [
                web.post(many, _handler(door, WriteDependencies.create, kind)),
                web.put(single, _handler(door, WriteDependencies.replace, kind)),
                web.patch(single, _handler(door, WriteDependencies.patch, kind)),
                web.delete(single, _handler(door, WriteDependencies.delete, kind)),
            ]
        else:
            no = _read_only(kind)
            routes.append(web.post(many, no))
            routes += [web.put(single, no), web.patch(single, no), web.delete(single, no)]
    if door.evictor is not None:
        routes.append(web.post(PATH, _handler(door, WriteDependencies.evict, POD)))
    return routes


def _path(kind: Kind) -> str:
    return (
        f"{kind.root}/namespaces/{{namespace}}/{kind.plural}"
        if kind.namespaced
        else f"{kind.root}/{kind.plural}"
    )


def _handler(
    door: WriteDependencies,
    method: Callable[[WriteDependencies, web.Request, Kind], Awaitable[web.Response]],
    kind: Kind,
) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        with door.bodies.take(request):
            return await method(door, request, kind)

    return handler


_EXPLAINED = {
    "Event": "events are written by the scheduler",
    "Shard": "shards are made from the settings; see quadrant config show",
}


def _read_only(kind: Kind) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        why = _EXPLAINED.get(kind.kind, "it can only be read")
        raise Problem(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{request.method} is not possible on {kind.resource}: {why}",
            kind=kind.plural,
            group=kind.group,
            allow=("GET", "HEAD"),
        )

    return handler


def preview(
    after: Document, before: Document | None, live: dict[str, Any] | None
) -> dict[str, Any]:
    """The object ``after`` a change, with the fields that the server currently adds (``live``)."""
    if live is not None and after is before:
        return live
    obj = after.object()
    shown = live or {}
    metadata = obj["metadata"] | {
        "uid": after.uid,
        "creationTimestamp": rfc3339(after.created),
        "generation": after.generation,
    }
    version = shown.get("metadata", {}).get("resourceVersion")
    if version is not None:
        metadata["resourceVersion"] = version
    obj["metadata"] = metadata
    return obj if before is None else with_added(obj, shown, before.object())
