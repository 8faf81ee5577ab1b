"""From a request and the object as it is to the object as it should be. Pure functions.

Each gets the newest document and how the object is shown now, and returns what is to be admitted.
What cannot be is a Problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from coordinator.kube.authored import authored
from coordinator.kube.bodies import APPLY, MERGE, STRATEGIC, bad
from coordinator.kube.patch.apply import Conflicts, apply
from coordinator.kube.patch.errors import PatchError
from coordinator.kube.patch.json_patch import json_patch
from coordinator.kube.patch.merging import merge_patch
from coordinator.kube.patch.owners import updated
from coordinator.kube.patch.shapes import shape_of
from coordinator.kube.patch.strategic import strategic_merge
from coordinator.kube.problems import Cause, Problem, not_found
from coordinator.kube.refusals import (
    already_exists,
    being_deleted,
    belongs,
    conflict,
    invalid,
    modified,
)
from coordinator.objects.document import Document, Key
from coordinator.objects.kinds import Kind
from shared.errors import shown
from shared.manifests.text import TextError, read_object


@dataclass(frozen=True, slots=True)
class Now:
    """The object as it is. Both None: there is none. ``before`` alone None: it is shown, but it
    belongs to another object (the pods of a Job). ``written``: the version at which its author last
    changed it; 0 where that is not known."""

    before: Document | None
    live: dict[str, Any] | None
    written: int = 0


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes, and when (RFC 3339). ``force``: take fields of others."""

    manager: str
    time: str
    force: bool = False


def identified(
    sent: dict[str, Any], kind: Kind, namespace: str, name: str | None
) -> dict[str, Any]:
    """The object with the kind and namespace that its path says, or a Problem where it says others.

    ``name`` None: the path says none, so that the object must.
    """
    for field, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        said = sent.get(field)
        if said is not None and said != wanted:
            raise bad(f"{field} is {shown(said)}, but the path is that of {wanted}; correct one")
    metadata = {} if sent.get("metadata") is None else sent["metadata"]
    if not isinstance(metadata, dict):
        raise bad("metadata is not an object; write the name in it")
    given = metadata.get("namespace") or ""
    if given not in ("", namespace):
        where = f"namespace {namespace} of the path" if kind.namespaced else "a kind that has none"
        raise bad(f"the namespace of the object ({shown(given)}) does not match {where}")
    said = metadata.get("name") or ""
    if name is not None and said not in ("", name):
        raise bad(
            f"the name of the object ({shown(said)}) does not match that of the path ({name})"
        )
    metadata = {k: v for k, v in metadata.items() if k not in ("namespace", "name")}
    metadata["name"] = name or said
    if kind.namespaced:
        metadata["namespace"] = namespace
    return sent | {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def named(obj: dict[str, Any], suffix: Callable[[], str]) -> dict[str, Any]:
    """The object with a name: its own, or ``generateName`` and a suffix."""
    metadata = obj["metadata"]
    if metadata["name"]:
        return obj
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        message = "Required value: name or generateName is required"
        cause = Cause("metadata.name", message, "FieldValueRequired")
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Invalid",
            f'{obj["kind"]} "" is invalid: {cause.field}: {cause.message}',
            kind=obj["kind"],
            causes=(cause,),
        )
    return obj | {"metadata": metadata | {"name": f"{prefix[:_LONGEST_PREFIX]}{suffix()}"}}


_LONGEST_PREFIX = 58
"""Characters of ``generateName`` that are kept, as in Kubernetes."""


def created(now: Now, obj: dict[str, Any], kind: Kind, author: Author) -> dict[str, Any]:
    name = obj["metadata"]["name"]
    if now.before is not None and now.before.deleting is not None:
        raise being_deleted(kind, name)
    if now.before is not None or now.live is not None:
        raise already_exists(kind, name)
    if obj["metadata"].get("resourceVersion"):
        raise bad("metadata.resourceVersion is set on an object to be created; leave it out")
    own = authored(kind, obj, None, None)
    return _updated(None, own, kind, author)


def replaced(now: Now, obj: dict[str, Any], kind: Kind, author: Author) -> dict[str, Any]:
    name = obj["metadata"]["name"]
    before, live = _existing(now, kind, name)
    _check_versions(obj, live, kind, name, now.written)
    own = authored(kind, obj, before, live)
    return _updated(before.object(), own, kind, author)


def patched(
    now: Now, patch: Any, kind: Kind, author: Author, *, key: Key, language: str
) -> dict[str, Any]:
    """``language`` is the media type of the patch."""
    if language == APPLY:
        return _applied(now, key, patch, kind, author)
    before, live = _existing(now, kind, key.name)
    try:
        obj = _plain(_merged(live, patch, language, kind))
    except PatchError as error:
        raise _unfit(error, kind, key.name) from error
    obj = identified(obj, kind, key.namespace, key.name)
    _check_versions(obj, live, kind, key.name, now.written)
    own = authored(kind, obj, before, live)
    return _updated(before.object(), own, kind, author)


def _merged(base: dict[str, Any], patch: Any, language: str, kind: Kind) -> Any:
    if language == STRATEGIC:
        return strategic_merge(base, patch, shape_of(kind.kind))
    return merge_patch(base, patch) if language == MERGE else json_patch(base, patch)


def _plain(value: Any) -> dict[str, Any]:
    """What came of a patch, as if it had been sent: no part is shared, no limit is passed."""
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
    now: Now, key: Key, config: dict[str, Any], kind: Kind, author: Author
) -> dict[str, Any]:
    wanted = identified(config, kind, key.namespace, key.name)
    if wanted["metadata"].get("managedFields"):
        raise bad("metadata.managedFields must be nil; leave it out of what is applied")
    live = None
    base = None
    if now.before is not None or now.live is not None:
        before, live = _existing(now, kind, key.name)
        base = before.object()
        _check_versions(wanted, live, kind, key.name, now.written)
    wanted = authored(kind, wanted, None, None)
    try:
        new = apply(
            base,
            wanted,
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
        Cause(found.field, f"conflict with {found.said}", "FieldManagerConflict")
        for found in error.found
    )
    return Problem(
        HTTPStatus.CONFLICT,
        "Conflict",
        str(error),
        kind=kind.plural,
        group=kind.group,
        name=name,
        causes=causes,
    )


# --- conditions -------------------------------------------------------------------------------


def _updated(
    old: dict[str, Any] | None, new: dict[str, Any], kind: Kind, author: Author
) -> dict[str, Any]:
    try:
        return updated(old, new, shape_of(kind.kind), manager=author.manager, now=author.time)
    except PatchError as error:
        name = str(new["metadata"]["name"])
        raise invalid(kind, name, Cause("metadata.managedFields", str(error))) from error


def _existing(now: Now, kind: Kind, name: str) -> tuple[Document, dict[str, Any]]:
    """The object's document and how it is shown. Raises Problem where it is nobody's own."""
    if now.live is None and now.before is None:
        raise not_found(kind.plural, name, group=kind.group)
    if now.before is None:
        raise belongs(kind, name, _owner(now.live or {}))
    if now.before.deleting is not None:
        raise conflict(kind, name, "it is being deleted; wait until it is gone")
    return now.before, now.live or now.before.object()


def _owner(live: dict[str, Any]) -> str:
    owners = live.get("metadata", {}).get("ownerReferences") or [{}]
    return f"{owners[0].get('kind', 'an object')} {owners[0].get('name', '')}".strip()


def check_deletion(now: Now, kind: Kind, name: str, *, uid: str, version: str) -> None:
    """May the object be deleted? Raises Problem."""
    if now.live is None and now.before is None:
        raise not_found(kind.plural, name, group=kind.group)
    if now.before is None:
        raise belongs(kind, name, _owner(now.live or {}))
    wanted = {"uid": uid, "resourceVersion": version}
    live = now.live or {"metadata": {}}
    _check_versions({"metadata": wanted}, live, kind, name, now.written)


def _check_versions(
    obj: dict[str, Any], live: dict[str, Any], kind: Kind, name: str, written: int
) -> None:
    """Is it the incarnation and the version that the author read? What he does not say fits.

    Members of a gang have a new version whenever another of them moves, and a watch tells most of
    them at an older one: what was read since the object was last written is the latest of what an
    author may write.
    """
    wanted, found = obj["metadata"], live["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and "uid" in found and uid != found["uid"]:
        why = f"Precondition failed: UID in precondition: {shown(uid)}"
        raise conflict(kind, name, f"{why}, UID in object meta: {found['uid']}")
    newest = found.get("resourceVersion")
    if not version or newest is None or version == newest:
        return
    if not written or not written <= _number(version) <= _number(newest):
        raise modified(kind, name)


def _number(version: Any) -> int:
    """-1 for what is no version of ours."""
    plain = isinstance(version, str) and version.isascii() and version.isdigit()
    return int(version) if plain and len(version) <= 19 else -1
