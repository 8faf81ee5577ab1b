"""A document: one object as its author wrote it, stored beside what the scheduler derived from it.

The scheduler works with numbers (:mod:`shared.model.model`); labels, annotations and all other
fields of an object are kept here, so that a read returns what was submitted. Documents are durable
in the ledger, written in the same call as the operations that they belong to.
"""

from __future__ import annotations

import uuid
from typing import Any, Final, Literal, NamedTuple

import msgspec
import orjson

from shared.codec.checked import Malformed
from shared.codec.packed import Codec, Count, Finite, replace

FORMAT: Final = 2
"""Format version of the bytes: rises when a field is added, removed or changes its meaning."""

_STORED = Codec(
    b"document ",
    tuple[Literal[2], bytes, Finite, Count, int, Finite | None, dict[str, Any] | None],
)

_UIDS = uuid.UUID("6f5b5a52-6a1c-5d0e-9d0b-3f1f6c2a7e11")


class Key(NamedTuple):
    """Identifies an object. ``kind`` is unique over all API groups here; ``namespace`` is "" for
    cluster-wide kinds."""

    kind: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """``namespace/name``, or ``name`` for cluster-wide kinds."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Key:
        kind, namespace, name = text.split("/", 2)
        return cls(kind, namespace, name)


class Document(msgspec.Struct, frozen=True, gc=False):
    """One object. A changed object is a new document under the same key."""

    key: Key
    body: bytes
    """The object as JSON, as submitted. The server-owned fields in it (uid, resourceVersion, times,
    generation) are ignored and served from the fields below."""
    created: float
    """Seconds since 1970."""
    generation: int = 1
    """Rises with each change of the specification, not with labels and annotations."""
    jid: int = -1
    """The job that the object is, or is a member of; -1 for neither."""
    deleting: float | None = None
    """Start of the deletion, seconds since 1970; None where it is not being deleted."""
    state: dict[str, Any] | None = None
    """State of a controller for this object (phase, retries), plain values only."""
    version: int = 0
    """resourceVersion of its last change. Not durable: a new leader starts a new range."""

    @property
    def uid(self) -> str:
        """Identifies the incarnation: an object that is deleted and created again gets another."""
        return make_uid(self.key, self.created)

    def object(self) -> dict[str, Any]:
        """The object as sent, a fresh copy."""
        value: dict[str, Any] = orjson.loads(self.body)
        return value

    def at(self, version: int) -> Document:
        return replace(self, version=version)


def make_uid(key: Key, created: float, incarnation: str = "") -> str:
    """``incarnation`` distinguishes restarts under one document (the pods of a Job)."""
    return str(uuid.uuid5(_UIDS, f"{key}#{created!r}#{incarnation}"))


def pod_uid(key: Key, document: Document, *, evicted: int = 0) -> str:
    """The uid of a Job's pod. ``evicted``: how many of its incarnations were evicted before; each
    has a uid of its own, by which who waits for a pod's end sees it."""
    incarnation = f"{document.jid}~{evicted}" if evicted else str(document.jid)
    return make_uid(key, document.created, incarnation)


def implied_namespace(key: Key) -> Document:
    """The document of a namespace that exists because an object names it."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.name}}
    return Document(key, orjson.dumps(body), 0.0)


def encode_document(document: Document) -> bytes:
    d = document
    return _STORED.encode(
        (FORMAT, d.body, d.created, d.generation, d.jid, d.deleting, d.state), key=str(d.key)
    )


def decode_document(key: str, data: bytes) -> Document:
    """Raises Malformed where the bytes are not the document of this key, in this format."""
    _, body, created, generation, jid, deleting, state = _STORED.decode(data, key=key)
    return Document(
        key=_key(key),
        body=body,
        created=created,
        generation=generation,
        jid=jid,
        deleting=deleting,
        state=state,
    )


def _key(text: str) -> Key:
    if text.count("/") < 2:
        raise Malformed(f"document {text}: its key is not KIND/NAMESPACE/NAME")
    return Key.parse(text)
