"""The double itself: a request in, an answer or a watch out. No I/O."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson

from laboratory.api_server import discovery
from laboratory.api_server.answers import (
    Answer,
    Json,
    NotServed,
    Refused,
    bad_request,
    not_found,
)
from laboratory.api_server.kinds import (
    BY_PATH,
    NAMESPACE,
    PRIORITY_CLASS,
    SERVED,
    ServedKind,
)
from laboratory.api_server.metadata import Target, delete_options
from laboratory.api_server.patches import merge_patch, strategic_merge_patch
from laboratory.api_server.selectors import Selection, selection
from laboratory.api_server.store import Store, event_of
from laboratory.api_server.writes import Writes
from shared.units.times import rfc3339

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASSES = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
}
_READ_BY = frozenset({"limit", "continue", "labelSelector", "fieldSelector", "resourceVersion"})
_WATCH_BY = frozenset({"watch", "allowWatchBookmarks", "timeoutSeconds"})
_WRITE_BY = frozenset({"timeout", "gracePeriodSeconds"})
NO_PATH = Answer(HTTPStatus.NOT_FOUND, "404 page not found\n")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    form: str = "application/json"
    """Of the body; a patch is told by it."""
    accept: str = ""


class Watch:
    """Changes of a kind's objects, from a version on. It is asked for them: nothing is pushed."""

    def __init__(
        self, store: Store, served: ServedKind, chosen: Selection, *, version: int, bookmarks: bool
    ) -> None:
        self.bookmarks = bookmarks
        self.over = False
        """Whether its last event was told: it was too old."""
        self._store, self._served, self._chosen = store, served, chosen
        self._version = version

    def lines(self) -> list[Json]:
        """Events since the last call."""
        try:
            self._store.check_watch(self._version)
        except Refused as refusal:
            self.over = True
            return [{"type": "ERROR", "object": refusal.status()}]
        changes = self._store.since(self._served.resource, self._version)
        events = [event_of(change, self._chosen) for change in changes]
        self._version = self._store.version
        return [{"type": event[0], "object": event[1]} for event in events if event is not None]

    def bookmark(self) -> Json:
        """Says up to which version everything was told."""
        kind = self._served.kind
        about = {"kind": kind.written, "apiVersion": kind.api_version}
        metadata = {"resourceVersion": str(self._version), "creationTimestamp": None}
        return {"type": "BOOKMARK", "object": about | {"metadata": metadata}}


class ApiServer:
    def __init__(self, *, clock: Callable[[], float], new_uid: Callable[[], str]) -> None:
        """``clock``: seconds since 1970."""
        self.store = Store()
        self.requests: dict[tuple[str, str, str], int] = {}
        """(method, resource, sub resource) -> number of requests."""
        self._writes = Writes(self.store, clock=clock, new_uid=new_uid)
        for name in NAMESPACES:
            item = _namespace(name, uid=new_uid(), now=clock())
            self.store.put(NAMESPACE.resource, name, item)
        for name, (value, description) in _SYSTEM_CLASSES.items():
            item = {"metadata": {"name": name}, "value": value, "description": description}
            self._writes.create(Target(PRIORITY_CLASS), item)

    def handle(self, request: Request) -> Answer | Watch:
        """Raises NotServed."""
        try:
            return self._handled(request)
        except Refused as refusal:
            return refusal.answer()

    def _handled(self, request: Request) -> Answer | Watch:
        if not request.path.startswith(("/api/", "/apis/")):
            return self._about_itself(request)
        parts = request.path.strip("/").split("/")
        length = 2 if parts[0] == "api" else 3
        api_version, rest = "/".join(parts[1:length]), parts[length:]
        if not rest:
            found = discovery.resource_list(api_version)
            return NO_PATH if found is None else Answer(HTTPStatus.OK, found)
        target = _target(api_version, rest)
        if target is None:
            return _no_resource(api_version)
        if target.sub and target.sub not in target.served.sub_resources:
            if target.served.native:
                return _no_resource(api_version)
            raise not_found(target.about)
        key = request.method, target.served.resource, target.sub
        self.requests[key] = self.requests.get(key, 0) + 1
        return self._about(target, request)

    def _about_itself(self, request: Request) -> Answer:
        match request.path:
            case "/api" | "/apis" if discovery.AGGREGATED in request.accept:
                core = request.path == "/api"
                return Answer(HTTPStatus.OK, discovery.aggregated(core=core))
            case "/readyz" | "/livez":
                return Answer(HTTPStatus.OK, "ok")
            case path:
                raise NotServed(f"{request.method} {path}")

    def _about(self, target: Target, request: Request) -> Answer | Watch:
        writes, query = self._writes, request.query
        match request.method, target.sub:
            case "GET", "" if not target.name:
                return self._many(target, query)
            case "GET", "" | "status":
                _known(query, frozenset({"timeout"}))
                return Answer(HTTPStatus.OK, writes.object_of(target))
            case _:
                _known(query, _WRITE_BY)
        given = _body(request)
        match request.method, target.sub, bool(target.name):
            case "POST", "", False if "create" in target.served.verbs:
                return writes.create(target, given)
            case "POST", "binding", True:
                return writes.bind(target, given)
            case "POST", "eviction", True:
                options = delete_options(given.get("deleteOptions") or {}, {})
                return writes.evict(target, given, options)
            case "PUT", "" | "status", True if "update" in target.served.verbs:
                return writes.replace(target, given)
            case "PATCH", "" | "status", True if "patch" in target.served.verbs:
                return self._patch(target, request, given)
            case "DELETE", "", True if "delete" in target.served.verbs:
                return writes.delete(target, delete_options(given, dict(query)))
            case _:
                raise NotServed(f"{request.method} {request.path}")

    def _patch(self, target: Target, request: Request, given: Json) -> Answer:
        match request.form:
            case "application/merge-patch+json":
                patch = merge_patch
            case "application/strategic-merge-patch+json" if target.served.native:
                patch = strategic_merge_patch
            case form if not target.served.native:
                raise Refused(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                    "UnsupportedMediaType",
                    f"the body of the request was in an unknown format - {form}",
                )
            case form:
                raise NotServed(f"a patch as {form}")
        old = self._writes.object_of(target)
        return self._writes.update(target, old, patch(old, given))

    # --- lists and watches ----------------------------------------------------------------------

    def _many(self, target: Target, query: Mapping[str, str]) -> Answer | Watch:
        watch = query.get("watch") in ("1", "true")
        _known(query, _READ_BY | (_WATCH_BY if watch else frozenset()))
        chosen = selection(
            target.served,
            target.namespace,
            fields=query.get("fieldSelector", ""),
            labels=query.get("labelSelector", ""),
        )
        if not watch:
            return self._list(target.served, chosen, query)
        version = query.get("resourceVersion", "")
        if not version.isdigit() or version == "0" or int(version) > self.store.version:
            raise NotServed(f"a watch from version {version!r}")
        return Watch(
            self.store,
            target.served,
            chosen,
            version=int(version),
            bookmarks=query.get("allowWatchBookmarks") in ("1", "true"),
        )

    def _list(self, served: ServedKind, chosen: Selection, query: Mapping[str, str]) -> Answer:
        limit, token = int(query.get("limit", "0")), query.get("continue", "")
        version, start = _continued(token) if token else (self.store.version, "")
        every = self.store.at(served.resource, version)
        found = [path for path in sorted(every) if path > start and chosen.has(every[path])]
        page = found[:limit] if limit else found
        kind = served.kind
        metadata: Json = {"resourceVersion": str(version)}
        if len(page) < len(found):
            metadata["continue"] = _token(version, page[-1])
            if chosen.everything:
                metadata["remainingItemCount"] = len(found) - len(page)
        items = [_listed(every[path]) if served.native else every[path] for path in page]
        about = {"kind": f"{kind.written}List", "apiVersion": kind.api_version}
        return Answer(HTTPStatus.OK, about | {"metadata": metadata, "items": items})


def _no_resource(api_version: str) -> Answer:
    """Of a group that definitions make, or that there is not, the path is not served at all."""
    if not any(s.native and s.kind.api_version == api_version for s in SERVED):
        return NO_PATH
    message = "the server could not find the requested resource"
    return Refused(HTTPStatus.NOT_FOUND, "NotFound", message, details={}).answer()


def _listed(item: Json) -> Json:
    """Items of the server's own kinds leave out what their list says."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def _known(query: Mapping[str, str], names: frozenset[str]) -> None:
    if unknown := query.keys() - names:
        raise NotServed(f"a request with {sorted(unknown)}")


def _body(request: Request) -> Json:
    if not request.body:
        return {}
    try:
        given = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise bad_request(str(error)) from None
    if not isinstance(given, dict):
        raise NotServed("a body that is not an object, such as a JSON patch")
    return given


def _target(api_version: str, parts: list[str]) -> Target | None:
    """None where the path leads nowhere."""
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    served = BY_PATH.get((api_version, parts[0]))
    if served is None or len(parts) > 3:
        return None
    _, name, sub = [*parts, "", ""][:3]
    of_all = not namespace and not name
    if bool(namespace) != served.kind.namespaced and not (of_all and served.kind.namespaced):
        return None
    return Target(served, namespace, name, sub)


def _token(version: int, after: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([version, after])).decode()


def _continued(token: str) -> tuple[int, str]:
    try:
        version, after = orjson.loads(base64.urlsafe_b64decode(token))
    except (ValueError, binascii.Error):
        raise bad_request("continue key is not valid") from None
    return int(version), str(after)


def _namespace(name: str, *, uid: str, now: float) -> Json:
    labels = {"kubernetes.io/metadata.name": name}
    metadata = {"name": name, "uid": uid, "creationTimestamp": rfc3339(now), "labels": labels}
    about = {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
    return about | {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
