"""One of two servers that get the same requests, and what it answered, in words that both share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from laboratory.local_kubernetes.client import ApiClient
from tests.kubernetes.api_server.steps import Json, Ref, Step

_SECONDS = 20.0
NOBODY = "00000000-0000-4000-8000-000000000000"
"""A uid that no object has."""
_TIMES = frozenset(
    {"creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastHeartbeatTime"}
)
_OF_LISTS = "List"


@dataclass(frozen=True, slots=True)
class Answered:
    """``body``: with uids and times by their order and presence alone; of errors without words that
    hold keys of the storage."""

    step: Step
    code: int
    body: Any


@dataclass(slots=True)
class Side:
    name: str
    client: ApiClient
    answers: list[Answered] = field(default_factory=list)
    _uids: dict[str, str] = field(default_factory=dict)
    """uid -> its number, in the order in which they were seen."""
    _seen: dict[str, list[Json]] = field(default_factory=dict)
    """Path -> metadata of the object, in the order in which it was seen."""
    _versions: list[int] = field(default_factory=list)

    async def ask(self, step: Step) -> Answered:
        """Send a request, and read the object that it is about."""
        answered = await self._ask(step)
        if step.about and step.method != "GET":
            answered = await self._ask(Step("GET", step.about))
        return answered

    async def _ask(self, step: Step) -> Answered:
        code, body = await self.raw(
            step.method, step.path, self._resolved(step.body), step.query, step.form
        )
        if isinstance(body, dict) and "uid" in body.get("metadata", {}):
            self._seen.setdefault(step.about or step.path, []).append(body["metadata"])
        answered = Answered(step, code, self.plain(body))
        self.answers.append(answered)
        return answered

    async def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, str] | None = None,
        form: str = "application/json",
    ) -> tuple[int, Any]:
        data = None if body is None else orjson.dumps(body)
        async with self.client.session.request(
            method, path, data=data, params=query, headers={"Content-Type": form}
        ) as answer:
            text = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, orjson.loads(text) if is_json else text.decode()

    async def version(self) -> str:
        """The newest, as a list says it."""
        _, body = await self.raw("GET", "/api/v1/namespaces/default/pods")
        return str(body["metadata"]["resourceVersion"])

    def first_version(self, path: str) -> str:
        return str(self._seen[path][0]["resourceVersion"])

    async def watched(
        self, path: str, version: str, until: str, **query: str
    ) -> list[tuple[str, Any]]:
        """(type, object) of the events after a version, up to the object of this name."""
        events: list[tuple[str, Any]] = []
        what = f"{self.name} {path} {query}"
        query |= {"resourceVersion": version, "allowWatchBookmarks": "true"}
        try:
            async with asyncio.timeout(_SECONDS), self.client.watch(path, **query) as answer:
                async for line in answer.content:
                    event = orjson.loads(line)
                    if event["type"] == "BOOKMARK":
                        continue
                    events.append((event["type"], self.plain(event["object"])))
                    if event["type"] == "ERROR" or event["object"]["metadata"]["name"] == until:
                        break
        except TimeoutError:
            raise AssertionError(f"{what} has no event of {until}: {events[-3:]}") from None
        return events

    # --- what both servers have words for -------------------------------------------------------

    def _resolved(self, value: Any) -> Any:
        """With this server's uids and versions."""
        match value:
            case Ref():
                return self._of_ref(value)
            case dict():
                return {key: self._resolved(part) for key, part in value.items()}
            case list():
                return [self._resolved(part) for part in value]
            case _:
                return value

    def _of_ref(self, ref: Ref) -> str:
        seen = self._seen.get(ref.path)
        if seen is None or ref.which == "other":
            return NOBODY if ref.what == "uid" else "1"
        metadata = seen[0 if ref.which == "first" else -1]
        return str(metadata["uid" if ref.what == "uid" else "resourceVersion"])

    def plain(self, body: Any) -> Any:
        """Uids by their number, times by their presence; versions are taken out and counted."""
        match body:
            case {"kind": "Status"}:
                return self._plain_status(body)
            case {"metadata": dict(), "items": list() as items, "kind": str(kind)}:
                token = bool(body["metadata"].get("continue"))
                left = body["metadata"].get("remainingItemCount")
                return [kind, body["apiVersion"], token, left, [self.plain(item) for item in items]]
            case _:
                return self._plain(body)

    def _plain_status(self, status: Json) -> Any:
        details = dict(status.get("details", {}))
        if uid := details.get("uid"):
            details["uid"] = self._number(uid)
        details.pop("causes", None) if status.get("reason") == "Invalid" else None
        words = status.get("message", "") if status.get("reason") in _WORDS_COUNT else ""
        return [status.get("status"), status.get("code"), status.get("reason"), details, words]

    def _plain(self, value: Any, key: str = "", *, at_times: bool = False) -> Any:
        match value:
            case dict():
                times = key == "disruptedPods"
                return {
                    name: self._plain(part, name, at_times=times)
                    for name, part in value.items()
                    if name != "managedFields"
                }
            case list():
                return [self._plain(part) for part in value]
            case str() if key == "uid":
                return self._number(value)
            case str() if key == "resourceVersion":
                self._versions.append(int(value))
                return int(value)
            case str() if key in _TIMES or at_times:
                return "at some time"
            case _:
                return value

    def _number(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"uid {len(self._uids)}") if uid != NOBODY else uid

    def ranks(self) -> dict[int, int]:
        """Version -> its place among all that were seen."""
        return {version: i for i, version in enumerate(sorted(set(self._versions)))}


_WORDS_COUNT = frozenset({"NotFound", "AlreadyExists", "TooManyRequests", "Forbidden"})
"""Reasons whose sentences are compared: they have nothing of the storage in them."""


def ranked(value: Any, ranks: dict[int, int], key: str = "") -> Any:
    match value:
        case dict():
            return {name: ranked(part, ranks, name) for name, part in value.items()}
        case list() | tuple():
            return [ranked(part, ranks) for part in value]
        case int() if key == "resourceVersion":
            return ranks[value]
        case _:
            return value


def differences(real: Any, double: Any, at: str = "") -> Iterator[str]:
    """Each place where two values are not the same."""
    match real, double:
        case dict(), dict():
            for key in sorted(real.keys() | double.keys(), key=str):
                if key not in real:
                    yield f"{at}.{key}: only the double has it: {double[key]}"
                elif key not in double:
                    yield f"{at}.{key}: only the real one has it: {real[key]}"
                else:
                    yield from differences(real[key], double[key], f"{at}.{key}")
        case ((list() | tuple()), (list() | tuple())) if len(real) == len(double):
            for i, (left, right) in enumerate(zip(real, double, strict=True)):
                yield from differences(left, right, f"{at}[{i}]")
        case _ if real != double:
            yield f"{at}: the real one says {real!r}, the double {double!r}"
        case _:
            pass
