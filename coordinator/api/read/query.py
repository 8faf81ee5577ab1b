"""Parsing of read requests: kind, namespace, selectors, form, page, and version."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import orjson
from aiohttp import web

from coordinator.api.http.negotiation import AnswerForm, form_of
from coordinator.api.http.parameters import bad_parameter, flag
from coordinator.api.read.selectors import Selector, selector_of
from coordinator.intake.documents.kinds import BY_KIND, Kind

LARGEST_PAGE = 2**31 - 1
_INVOLVED = tuple(
    f"involvedObject.{name}"
    for name in ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
)
_FIELDS = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
    ),
    "Node": ("spec.unschedulable",),
    "Event": (*_INVOLVED, "reason", "reportingComponent", "source", "type"),
    "PodGroup": ("spec.queue", "status.phase"),
    "KaiPodGroup": ("spec.queue", "status.phase"),
    "KaiQueue": ("spec.parentQueue",),
    "Job": ("spec.queue", "status.state.phase"),
    "Queue": ("spec.parent", "status.state"),
    "Namespace": ("status.phase",),
}
FIELDS = {
    name: frozenset(("metadata.name", "metadata.namespace", *_FIELDS.get(name, ())))
    for name in BY_KIND
}
"""Kind -> fields that fieldSelector may use."""


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A parsed read request. ``namespace`` None: all namespaces, or a cluster-wide kind."""

    kind: Kind
    namespace: str | None
    selector: Selector
    form: AnswerForm
    include: str
    """How much of the object a table row includes: None, Metadata or Object."""
    limit: int | None = None
    token: Token | None = None
    version: int | None = None
    """resourceVersion; None if not given."""
    match: str = ""
    """resourceVersionMatch: "", Exact or NotOlderThan."""
    watch: bool = False
    bookmarks: bool = False
    initial: bool | None = None
    """sendInitialEvents; None if not given."""
    seconds: float | None = None
    """timeoutSeconds of a watch."""


@dataclass(frozen=True, slots=True)
class Token:
    """A continue token: where the next page begins, and the version of the first page."""

    version: int
    after: str

    def text(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps([1, self.version, self.after])).decode()

    @classmethod
    def parse(cls, text: str) -> Token:
        """Parse a token. Raises Problem (400)."""
        try:
            match orjson.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True)):
                case [1, int(version), str(after)]:
                    return cls(version, after)
                case _:
                    pass
        except (ValueError, UnicodeEncodeError, binascii.Error):
            pass
        raise bad_parameter("continue", text, "is not a token of this server; begin the list anew")


def question_of(request: web.Request, kind: Kind) -> ReadQuestion:
    """Parse a request. Raises Problem (400, 406). Unknown parameters are ignored, as in Kubernetes,
    since clients send more than any server needs."""
    query = request.query
    watch = flag(query.get("watch", "false"), "watch")
    limit = _integer(query.get("limit", ""), "limit")
    token = Token.parse(query["continue"]) if query.get("continue") else None
    match = query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        raise bad_parameter(
            "resourceVersionMatch", match, "is unknown; write Exact or NotOlderThan"
        )
    version = _integer(query.get("resourceVersion", ""), "resourceVersion")
    if match and version is None and not watch:
        raise bad_parameter("resourceVersionMatch", match, "needs a resourceVersion; add one")
    if token is not None and version:
        raise bad_parameter("resourceVersion", str(version), "must not be said where continue is")
    include = query.get("includeObject", "Metadata")
    if include not in ("None", "Metadata", "Object"):
        raise bad_parameter("includeObject", include, "is unknown; write None, Metadata or Object")
    initial = query.get("sendInitialEvents")
    return ReadQuestion(
        kind=kind,
        namespace=request.match_info.get("namespace"),
        selector=selector_of(
            query.get("labelSelector", ""),
            query.get("fieldSelector", ""),
            selectable=FIELDS[kind.kind],
        ),
        form=form_of(request.headers.get("Accept", "")),
        include=include,
        limit=limit or None,
        token=token,
        version=version,
        match=match,
        watch=watch,
        bookmarks=flag(query.get("allowWatchBookmarks", "false"), "allowWatchBookmarks"),
        initial=None if initial is None else flag(initial, "sendInitialEvents"),
        seconds=_integer(query.get("timeoutSeconds", ""), "timeoutSeconds"),
    )


def _integer(text: str, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise bad_parameter(name, text, "is not allowed; write a whole number from 0 up")
    value = int(text)
    if name == "limit":
        return min(value, LARGEST_PAGE)
    return value
