"""Documents of accepted objects: which are new, which changed, which say the same as before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from coordinator.admission.queues import DEFAULT
from coordinator.admission.registry import Draft, unpack_task
from coordinator.admission.step import Step, key_of, kind_of
from coordinator.objects.document import Document, Key
from shared.errors import InvalidInput
from shared.manifests import Manifest

NAMESPACED = frozenset(("Pod", "PodGroup", "Job", "PodDisruptionBudget"))

SERVER_OWNED = frozenset(
    (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    )
)
"""Fields of ``metadata`` that an author may repeat and that mean nothing there."""

_IDENTITY = SERVER_OWNED | {"name", "namespace", "managedFields"}
_STATUS = {"Node": ("allocatable", "capacity"), "Queue": ("state",)}
"""What of ``status`` an author says; all else there is ours."""


DEFAULT_QUEUE = Key("Queue", "", DEFAULT)


class Item(NamedTuple):
    """One object of a list: as parsed, as sent, and as JSON."""

    manifest: Manifest
    sent: dict[str, Any]
    body: bytes


def body_of(item: dict[str, Any]) -> bytes:
    """Raises InvalidInput where the object cannot be written as JSON."""
    try:
        return orjson.dumps(item)
    except TypeError as error:
        message = "not plain JSON, or nested too deep; use texts, 64-bit numbers and lists"
        raise InvalidInput("", None, message) from error


def documents_of(
    step: Step, items: Iterable[Item], known: dict[Key, Document]
) -> dict[Key, Document]:
    """The documents of what a list brought that are new or changed; counts what is unchanged."""
    fresh: dict[Key, Document] = {}
    for manifest, sent, body in items:
        number = id(manifest)
        if number in step.out:
            continue
        key = document_key(manifest)
        old = fresh.get(key) or known.get(key)
        if old is None:
            fresh[key] = Document(key, body, step.now, 1, _jid(step.draft, manifest, key))
        elif old.body != body and (changed := _changed(old, sent, body)) is not None:
            fresh[key] = changed
        else:
            step.unchanged += number in step.same
    return fresh


def default_queue(now: float) -> Document:
    """The queue that exists without anybody's having written it."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return Document(DEFAULT_QUEUE, body_of(kind | {"metadata": {"name": DEFAULT}, "spec": {}}), now)


def document_key(manifest: Manifest) -> Key:
    return Key(kind_of(manifest), getattr(manifest, "namespace", ""), manifest.name)


def _jid(draft: Draft, manifest: Manifest, key: Key) -> int:
    match key.kind:
        case "Pod":
            return unpack_task(draft.pod(key_of(manifest)))[0]
        case "PodGroup":
            return draft.groups.get(key_of(manifest)) or 0
        case "Job":
            return draft.batch_jobs.get(key_of(manifest)) or 0
        case _:
            return -1


def _changed(old: Document, sent: dict[str, Any], body: bytes) -> Document | None:
    """The next document of an object, None where its author says the same as before."""
    before = old.object()
    moved = _specified(before) != _specified(sent)
    if not moved and _described(before, sent) == _described(sent, sent):
        return None
    return replace(old, body=body, generation=old.generation + moved)


def _specified(item: dict[str, Any]) -> dict[str, Any]:
    """What an author asks for, without labels, annotations and what the server adds."""
    said = {name: value for name, value in item.items() if name not in ("metadata", "status")}
    status = item.get("status") or {}
    for name in _STATUS.get(item["kind"], ()):
        said[f"status.{name}"] = status.get(name)
    if item["kind"] == "Queue" and said["status.state"] is None:
        said["status.state"] = "Open"
    if not said.get("spec"):
        said.pop("spec", None)
    return said


def _described(item: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """Labels, annotations and the like; who manages which field only where it was sent."""
    metadata = {name: value for name, value in item["metadata"].items() if value}
    said = {name: value for name, value in metadata.items() if name not in _IDENTITY}
    if sent["metadata"].get("managedFields"):
        said["managedFields"] = metadata.get("managedFields")
    return said
