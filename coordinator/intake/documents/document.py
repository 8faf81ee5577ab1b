"""A document: one object as its author wrote it, stored beside what the scheduler derived from it.

The scheduler works with numbers (:mod:`shared.model.model`); labels, annotations and all other
fields of an object are kept here, so that a read returns what was submitted. Documents are durable
in the ledger, written in the same call as the operations that they belong to.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgpack
import orjson

from shared.codec.checked import (
    Malformed,
    binary,
    count,
    integer,
    number,
    seal,
    unpack_sealed,
    wrong,
)

FORMAT = 2
"""Format version of the bytes: rises when a field is added, removed or changes its meaning."""

_PACKER = msgpack.Packer(use_bin_type=True)
"""Shared, because creating one costs more than packing. Used by one event loop only."""

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


@dataclass(frozen=True, slots=True)
class Document:
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


def encode_document(document: Document) -> bytes:
    d = document
    packed: bytes = _PACKER.pack(
        (FORMAT, d.body, d.created, d.generation, d.jid, d.deleting, d.state)
    )
    return seal(_kind(str(d.key)), packed)


def decode_document(key: str, data: bytes) -> Document:
    """Raises Malformed where the bytes are not the document of this key, in this format."""
    at = f"document {key}"
    value = unpack_sealed(_kind(key), data)
    if type(value) is not list or len(value) != 7 or value[0] != FORMAT:
        raise Malformed(f"{at}: not of format {FORMAT}")
    _, body, created, generation, jid, deleting, state = value
    if state is not None and type(state) is not dict:
        raise wrong(state, f"{at}.state", "map")
    return Document(
        key=_key(key, at),
        body=binary(body, f"{at}.body"),
        created=number(created, f"{at}.created"),
        generation=count(generation, f"{at}.generation"),
        jid=integer(jid, f"{at}.jid"),
        deleting=None if deleting is None else number(deleting, f"{at}.deleting"),
        state=state,
    )


def _kind(key: str) -> bytes:
    """The checksum covers the key too, so that a document stored under another key is refused."""
    return f"document {key}".encode()


def _key(text: str, at: str) -> Key:
    if text.count("/") < 2:
        raise Malformed(f"{at}: its key is not KIND/NAMESPACE/NAME")
    return Key.parse(text)
