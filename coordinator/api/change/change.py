"""From a request and the current object to the object to admit.

Pure functions. Each gets the newest document and the object as currently shown, and returns the
object to admit, or raises Problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

from coordinator.api.change.authored import authored
from coordinator.api.change.bodies import APPLY, MERGE, STRATEGIC, bad, object_of, patch_of
from coordinator.api.change.refusals import (
    about,
    already_exists,
    being_deleted,
    belongs,
    conflict,
    invalid,
    modified,
)
from coordinator.api.patch.apply import Conflicts, apply
from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.json_patch import json_patch
from coordinator.api.patch.managed_fields import updated
from coordinator.api.patch.merge_keys import shape_of
from coordinator.api.patch.merge_patch import merge_patch
from coordinator.api.patch.strategic_merge import strategic_merge
from coordinator.errors import Cause, Problem, not_found
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind
from shared.errors import shown
from shared.manifests.fields.generated_names import with_name
from shared.manifests.text.errors import TextError
from shared.manifests.text.text import read_object


@dataclass(frozen=True, slots=True)
class CurrentObject:
    """The current object. ``before`` and ``live`` None: there is none.

    Only ``before`` None: the object is shown but derived from another (pods of a Job). ``written``:
    version at which its author last changed it; 0 if unknown.
    """

    before: Document | None
    live: dict[str, Any] | None
    written: int = 0


@dataclass(frozen=True, slots=True)
class Author:
    """Field manager of a write, and its time (RFC 3339). ``force``: take over fields of other
    managers."""

    manager: str
    time: str
    force: bool = False


class Verb(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    PATCH = "patch"


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request that writes one object, without its body.

    ``name`` "": the body has it. ``language``: media type of the body. ``suffix``: for a generated
    name.
    """

    verb: Verb
    kind: Kind
    namespace: str
    name: str
    language: str
    author: Author
    suffix: str = ""

    def sent(self, body: bytes) -> Any:
        """Parse the object or patch in the body. Raises Problem (400, 415, 422)."""
        match self.verb:
            case Verb.CREATE:
                sent = object_of(body, self.language)
                obj = identified(sent, self.kind, self.namespace, None)
                return named(obj, lambda: self.suffix)
            case Verb.REPLACE:
                sent = object_of(body, self.language)
                return identified(sent, self.kind, self.namespace, self.name)
            case Verb.PATCH:
                return patch_of(body, self.language)

    def made(self, sent: Any, now: CurrentObject) -> dict[str, Any]:
        """The object to admit. Raises Problem."""
        match self.verb:
            case Verb.CREATE:
                return created(now, sent, self.kind, self.author)
            case Verb.REPLACE:
                return replaced(now, sent, self.kind, self.author)
            case Verb.PATCH:
                key = Key(self.kind.kind, self.namespace, self.name)
                return patched(now, sent, self.kind, self.author, key=key, language=self.language)


def identified(
    sent: dict[str, Any], kind: Kind, namespace: str, name: str | None
) -> dict[str, Any]:
    """Check the object's kind and namespace against the path, and fill them in. Raises Problem if
    they differ. ``name`` None: the path has none, so the object needs one.
    """
    for field, expected in (("apiVersion", kind.api_version), ("kind", kind.written)):
        sent_value = sent.get(field)
        if sent_value is not None and sent_value != expected:
            raise bad(
                f"{field} is {shown(sent_value)}, but the path is that of {expected}; correct one"
            )
    metadata = {} if sent.get("metadata") is None else sent["metadata"]
    if not isinstance(metadata, dict):
        raise bad("metadata is not an object; write the name in it")
    sent_namespace = metadata.get("namespace") or ""
    if sent_namespace not in ("", namespace):
        where = f"namespace {namespace} of the path" if kind.namespaced else "a kind that has none"
        raise bad(f"the namespace of the object ({shown(sent_namespace)}) does not match {where}")
    sent_value = metadata.get("name") or ""
    if name is not None and sent_value not in ("", name):
        raise bad(
            f"the name of the object ({shown(sent_value)}) does not match that of the path ({name})"
        )
    metadata = {k: v for k, v in metadata.items() if k not in ("namespace", "name")}
    metadata["name"] = name or sent_value
    if kind.namespaced:
        metadata["namespace"] = namespace
    return sent | {"apiVersion": kind.api_version, "kind": kind.written, "metadata": metadata}


def named(obj: dict[str, Any], suffix: Callable[[], str]) -> dict[str, Any]:
    """The object with its own name, or one generated from ``generateName`` and a suffix."""
    obj = with_name(obj, suffix)
    if not obj["metadata"]["name"]:
        message = "Required value: name or generateName is required"
        cause = Cause("metadata.name", message, "FieldValueRequired")
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f'{obj["kind"]} "" is invalid: {cause.field}: {cause.message}',
            kind=obj["kind"],
            causes=(cause,),
        )
    return obj


def created(now: CurrentObject, obj: dict[str, Any], kind: Kind, author: Author) -> dict[str, Any]:
    check_free(now, kind, obj["metadata"]["name"])
    if obj["metadata"].get("resourceVersion"):
        raise bad("metadata.resourceVersion is set on an object to be created; leave it out")
    authored_part = authored(kind, obj, None, None)
    return _updated(None, authored_part, kind, author)


def check_free(now: CurrentObject, kind: Kind, name: str) -> None:
    """Raise Problem if no object of this name can be created now."""
    if now.before is not None and now.before.deleting is not None:
        raise being_deleted(kind, name)
    if now.before is not None or now.live is not None:
        raise already_exists(kind, name)


def replaced(now: CurrentObject, obj: dict[str, Any], kind: Kind, author: Author) -> dict[str, Any]:
    name = obj["metadata"]["name"]
    before, live = _existing(now, kind, name)
    _check_versions(obj, live, kind, name, now.written)
    authored_part = authored(kind, obj, before, live)
    return _updated(before.object(), authored_part, kind, author)


def patched(
    now: CurrentObject, patch: Any, kind: Kind, author: Author, *, key: Key, language: str
) -> dict[str, Any]:
    """The current object with the patch applied. ``language``: the patch's media type."""
    if language == APPLY:
        return _applied(now, key, patch, kind, author)
    before, live = _existing(now, kind, key.name)
    try:
        # What comes of a patch is held to the limits of a body: many small ones could otherwise
        # build an object that none could send.
        obj = _plain(_merged(live, patch, language, kind))
    except PatchError as error:
        raise _unfit(error, kind, key.name) from error
    obj = identified(obj, kind, key.namespace, key.name)
    _check_versions(obj, live, kind, key.name, now.written)
    authored_part = authored(kind, obj, before, live)
    return _updated(before.object(), authored_part, kind, author)


def _merged(base: dict[str, Any], patch: Any, language: str, kind: Kind) -> Any:
    if language == STRATEGIC:
        return strategic_merge(base, patch, shape_of(kind.kind))
    return merge_patch(base, patch) if language == MERGE else json_patch(base, patch)


def _plain(value: Any) -> dict[str, Any]:
    """A deep copy of a patched object, checked against the limits for bodies."""
    try:
        return read_object(orjson.dumps(value), form="json")
    except (TextError, TypeError) as error:
        message = f"what comes of it cannot be taken: {error}"
        raise PatchError(message, malformed=False) from error


def _unfit(error: PatchError, kind: Kind, name: str) -> Problem:
    if error.malformed:
        return bad(f"the patch is wrong: {error}")
    cause = Cause("patch", f"Invalid value: {error}")
    return invalid(kind, name, cause)


# --- server-side apply ------------------------------------------------------------------------


def _applied(
    now: CurrentObject, key: Key, config: dict[str, Any], kind: Kind, author: Author
) -> dict[str, Any]:
    applied = identified(config, kind, key.namespace, key.name)
    if applied["metadata"].get("managedFields"):
        raise bad("metadata.managedFields must be nil; leave it out of what is applied")
    live = None
    base = None
    if now.before is not None or now.live is not None:
        before, live = _existing(now, kind, key.name)
        base = before.object()
        _check_versions(applied, live, kind, key.name, now.written)
    applied = authored(kind, applied, None, None)
    try:
        new = apply(
            base,
            applied,
            shape_of(kind.kind),
            manager=author.manager,
            now=author.time,
            force=author.force,
        )
    except Conflicts as error:
        raise _conflicts(error, kind, key.name) from error
    except PatchError as error:
        raise _unfit(error, kind, key.name) from error
    return new


def _conflicts(error: Conflicts, kind: Kind, name: str) -> Problem:
    causes = tuple(
        Cause(conflict.field, f"conflict with {conflict.said}", "FieldManagerConflict")
        for conflict in error.found
    )
    return about(kind, name, str(error), causes=causes)


# --- conditions -------------------------------------------------------------------------------


def _updated(
    old: dict[str, Any] | None, new: dict[str, Any], kind: Kind, author: Author
) -> dict[str, Any]:
    try:
        return updated(old, new, shape_of(kind.kind), manager=author.manager, now=author.time)
    except PatchError as error:
        name = str(new["metadata"]["name"])
        raise invalid(kind, name, Cause("metadata.managedFields", str(error))) from error


def _existing(now: CurrentObject, kind: Kind, name: str) -> tuple[Document, dict[str, Any]]:
    """The object's document and shown form. Raises Problem if it does not exist, is being deleted,
    or is derived from another."""
    before = _own(now, kind, name)
    if before.deleting is not None:
        raise conflict(kind, name, "it is being deleted; wait until it is gone")
    return before, now.live or before.object()


def _own(now: CurrentObject, kind: Kind, name: str) -> Document:
    """The document. Raises Problem if there is no such object, or it is derived from another."""
    if now.live is None and now.before is None:
        raise not_found(kind.plural, name, group=kind.group)
    if now.before is None:
        raise belongs(kind, name, _owner(now.live or {}))
    return now.before


def _owner(live: dict[str, Any]) -> str:
    owners = live.get("metadata", {}).get("ownerReferences") or [{}]
    return f"{owners[0].get('kind', 'an object')} {owners[0].get('name', '')}".strip()


def check_deletion(now: CurrentObject, kind: Kind, name: str, *, uid: str, version: str) -> None:
    """Raise Problem if the object cannot be deleted."""
    _own(now, kind, name)
    live = now.live or {"metadata": {}}
    check_incarnation(live, kind, name, uid=uid, version=version, written=now.written)


def check_incarnation(
    live: dict[str, Any], kind: Kind, name: str, *, uid: str, version: str, written: int = 0
) -> None:
    """Raise Problem if this is not the incarnation, or version, that is meant; "" for any."""
    precondition = {"uid": uid, "resourceVersion": version}
    _check_versions({"metadata": precondition}, live, kind, name, written)


def _check_versions(
    obj: dict[str, Any], live: dict[str, Any], kind: Kind, name: str, written: int
) -> None:
    """Check the incarnation and version that the author read, if given. Raises Problem.

    Members of a gang get a new version whenever another member changes, and a watch shows most of
    them with an older one. So a version is current if the author's last write is not newer.
    """
    sent, current = obj["metadata"], live["metadata"]
    uid, version = sent.get("uid"), sent.get("resourceVersion")
    if uid and "uid" in current and uid != current["uid"]:
        why = f"Precondition failed: UID in precondition: {shown(uid)}"
        raise conflict(kind, name, f"{why}, UID in object meta: {current['uid']}")
    newest = current.get("resourceVersion")
    if not version or newest is None or version == newest:
        return
    if not written or not written <= _number(version) <= _number(newest):
        raise modified(kind, name)


def _number(version: Any) -> int:
    """The version as a number; -1 if it is not one of this server's."""
    plain = isinstance(version, str) and version.isascii() and version.isdigit()
    return int(version) if plain and len(version) <= 19 else -1
