"""Documents of accepted objects: which are new, changed or unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.queues import DEFAULT
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.step import AdmissionStep, kind_of
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import BY_KIND, KAI_POD_GROUP, KINDS
from coordinator.intake.documents.metadata import OWN
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.kubernetes.groups import NativePodGroupManifest
from shared.manifests.kubernetes.objects import NodeManifest, PodManifest
from shared.manifests.parse import Manifest
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest
from shared.model.devices import ResourceClaim
from shared.model.groups import NATIVE_KINDS, group_key
from shared.model.storage import VolumeClaim
from shared.slices import Steps

NAMESPACED = frozenset(kind.kind for kind in KINDS if kind.namespaced)

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
"""Fields of ``metadata`` that only the server sets; ignored where an author sends them."""

_OURS = frozenset(OWN)
_IDENTITY = SERVER_OWNED | {"name", "namespace", "managedFields"}
_HOST_NAME = "kubernetes.io/hostname"


_key = tuple.__new__
DEFAULT_QUEUE = Key("Queue", "", DEFAULT)


Item = tuple[Manifest, dict[str, Any], bytes]
"""One object of a list: as parsed, as sent, and as JSON."""


def body_of(item: dict[str, Any]) -> bytes:
    """The object as JSON. Raises InvalidInput where it cannot be encoded."""
    try:
        # The slice is a copy of the right size: orjson's own buffer is larger, and keeping those of
        # many objects costs three times as much as the copy.
        return orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE)[:-1]
    except TypeError as error:
        message = "not plain JSON, or nested too deep; use texts, 64-bit numbers and lists"
        raise InvalidInput("", None, message) from error


def repeated(
    manifest: Manifest,
    sent: dict[str, Any],
    documents: dict[Key, Document],
    node_of: Callable[[str, str], str],
) -> dict[str, Any] | None:
    """A submitted copy of an object that was read from this server, without the fields that the
    server added: the uid, a pod's node, and the node label of its own name.

    Returns None where the copy has none of these fields, or names another incarnation than the
    stored one. ``node_of(namespace, name)`` returns the node of a pod, "" for none. Raises
    InvalidInput where the copy names a node that its pod is not on.
    """
    match manifest:
        case PodManifest(uid=uid):
            ours = bool(uid or manifest.template.node_name)
        case PodGroupManifest(uid=uid) | NativePodGroupManifest(uid=uid) | JobManifest(uid=uid):
            ours = bool(uid)
        case VolumeClaim(uid=uid):
            ours = bool(uid)
        case ResourceClaim():
            return _with_status(manifest, sent, documents)
        case NodeManifest():
            uid, ours = "", manifest.labels.get(_HOST_NAME) == manifest.name
        case _:
            return None
    document = documents.get(document_key(manifest)) if ours else None
    if document is None or uid not in ("", document.uid):
        return None
    before = document.object()
    written = _without(sent, "metadata", "uid")
    if isinstance(manifest, PodManifest):
        _check_node(manifest, node_of(manifest.namespace, manifest.name))
        written = _without(written, "spec", "nodeName")
    if isinstance(manifest, NodeManifest) and _HOST_NAME not in (
        before["metadata"].get("labels") or {}
    ):
        written["metadata"] = _without(written["metadata"], "labels", _HOST_NAME)
    return written


def _with_status(
    claim: ResourceClaim, sent: dict[str, Any], documents: dict[Key, Document]
) -> dict[str, Any] | None:
    """The claim with the status that it has, unless one was sent: who changes what a claim asks for
    does not take its devices away."""
    document = None if "status" in sent else documents.get(document_key(claim))
    status = None if document is None else document.object().get("status")
    return sent | {"status": status} if status else None


def _check_node(pod: PodManifest, node: str) -> None:
    named_node = pod.template.node_name
    if named_node and named_node != node:
        now = f"the pod is on {node}" if node else "the pod is on none now"
        message = f"cannot change, the scheduler chooses the node and {now}; leave it out"
        raise InvalidInput("spec.nodeName", named_node, message)


def _without(obj: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    """A copy of the object without one field of a part that it has."""
    return obj | {part: {field: value for field, value in obj[part].items() if field != name}}


def documents_of(
    step: AdmissionStep, items: Iterable[Item], stored: dict[Key, Document]
) -> Steps[dict[Key, Document]]:
    """The documents of the new and changed objects of a list; counts the unchanged ones."""
    fresh: dict[Key, Document] = {}
    now, out, jids = step.now, step.out, step.jids
    for manifest, sent, body in items:
        yield
        number = id(manifest)
        if number in out:
            continue
        if type(manifest) is PodManifest:  # most of them: the short way
            key = _key(Key, ("Pod", manifest.namespace, manifest.name))
            jid = jids.get(number, -1)
        else:
            key, jid = document_key(manifest), -1
            if key.kind not in BY_KIND:  # nobody could ask for it
                step.unchanged += number in step.same
                continue
        old = fresh.get(key) or stored.get(key)
        if old is None:
            fresh[key] = Document(key, body, now, 1, jid if jid >= 0 else _jid(step.draft, key))
        elif old.body != body and (changed := _changed(old, sent, body)) is not None:
            fresh[key] = changed
        else:
            step.unchanged += number in step.same
    return fresh


def joined_documents(
    step: AdmissionStep, fresh: dict[Key, Document], stored: dict[Key, Document]
) -> dict[Key, Document]:
    """The documents of groups that are in another job now: that of their tree."""
    joined: dict[Key, Document] = {}
    for key, jid in step.joined.items():
        document = fresh.get(key) or stored.get(key)
        if document is not None and document.jid != jid:
            joined[key] = replace(document, jid=jid)
    return joined


def default_queue(now: float) -> Document:
    """The document of the queue ``default``, which exists although nobody submitted it."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return Document(DEFAULT_QUEUE, body_of(kind | {"metadata": {"name": DEFAULT}, "spec": {}}), now)


def document_key(manifest: Manifest) -> Key:
    return Key(kind_of(manifest), getattr(manifest, "namespace", ""), manifest.name)


def _jid(draft: Draft, key: Key) -> int:
    """The job that an accepted object is, or is a member of."""
    kind, namespace, name = key
    if kind == "Pod":
        return unpack_task(draft.pod(f"{namespace}/{name}"))[0]
    jid: int | None = None
    if kind in (draft.group_kind, *NATIVE_KINDS):
        jid = draft.groups.get(group_key(kind, key.path))
    elif kind == "Job":
        jid = draft.batch_jobs.get(key.path)
    return -1 if jid is None else jid


def _changed(old: Document, sent: dict[str, Any], body: bytes) -> Document | None:
    """The next version of an object's document; None where the submitted object is unchanged."""
    before = old.object()
    respecified = _specified(before) != _specified(sent)
    # The status of a claim is what its users have of it, that of KAI's PodGroup where it failed,
    # that of a native one whether it was placed once.
    read = old.key.kind in ("ResourceClaim", KAI_POD_GROUP.kind, *NATIVE_KINDS)
    restated = read and sent.get("status") != before.get("status")
    if not (respecified or restated) and _described(before, sent) == _described(sent, sent):
        return None
    return replace(old, body=body, generation=old.generation + respecified)


def _specified(item: dict[str, Any]) -> dict[str, Any]:
    """The submitted specification, without labels, annotations and server-owned fields."""
    specification = {
        name: value for name, value in item.items() if name not in ("metadata", "status")
    }
    status = item.get("status") or {}
    if item["kind"] == "Node":
        specification["offered"] = status.get("allocatable") or status.get("capacity")
    elif item["kind"] == "Queue":
        specification["open"] = (status.get("state") or "Open") == "Open"
    if not specification.get("spec"):
        specification.pop("spec", None)
    return specification


def _described(item: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """Labels, annotations and the other descriptive metadata; ``managedFields`` only where they
    were sent."""
    metadata = item["metadata"]
    description = {
        name: value for name, value in metadata.items() if value and name not in _IDENTITY
    }
    if (annotations := description.pop("annotations", None)) and not annotations.keys() <= _OURS:
        description["annotations"] = {k: v for k, v in annotations.items() if k not in _OURS}
    if sent["metadata"].get("managedFields"):
        description["managedFields"] = metadata.get("managedFields")
    return description
