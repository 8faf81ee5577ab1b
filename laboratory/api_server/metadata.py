"""What holds for objects of every kind when they are made, changed and deleted. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from laboratory.api_server.answers import (
    Cause,
    Invalid,
    Json,
    Named,
    NotServed,
    Refused,
    bad_request,
    conflict,
)
from laboratory.api_server.kinds import ServedKind
from shared.units.times import rfc3339

STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Set by the server; who changes an object leaves them as they are."""
_LEFT_OUT_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about, by its path."""

    served: ServedKind
    namespace: str = ""
    name: str = ""
    """"" for all objects of the kind."""
    sub: str = ""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def about(self) -> Named:
        return Named(self.name, self.served.plural, self.served.group)

    def invalid(self, *causes: Cause) -> Refused:
        kind = self.served.kind
        return Invalid(self.name, kind.written, kind.group, causes).refusal()


def copied(item: Json) -> Json:
    value: Json = orjson.loads(orjson.dumps(item))
    return value


def without_nulls(value: Any) -> Any:
    """As the server's own kinds are read: what is null is not there."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def new_metadata(target: Target, item: Json, *, now: float, uid: str) -> Json:
    """The metadata of a new object."""
    given = item.get("metadata") or {}
    if not given.get("name"):
        raise NotServed("an object without a name")
    if given.get("resourceVersion") or given.get("generateName"):
        raise NotServed("an object with a version or a name to be made")
    if given.get("namespace", target.namespace) != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata = tidy(without_nulls(given)) | {"uid": uid, "creationTimestamp": rfc3339(now)}
    if target.namespace:
        metadata["namespace"] = target.namespace
    if target.served.generation:
        metadata["generation"] = 1
    return metadata


def tidy(metadata: Json) -> Json:
    """Without what the server leaves out where it is empty."""
    empty = [key for key in _LEFT_OUT_EMPTY if key in metadata and not metadata[key]]
    return {key: value for key, value in metadata.items() if key not in (*empty, "managedFields")}


def changed_metadata(target: Target, old: Json, new: Json) -> Json:
    """The new metadata of an object; its generation is that of ``old``. Raises Refused."""
    before, given = old["metadata"], without_nulls(new.get("metadata") or {})
    for key in ("name", "namespace"):
        if given.get(key, before.get(key)) != before.get(key):
            raise NotServed(f"a change of the {key}")
    if given.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
        raise conflict(target.about, STALE)
    # A definition's status is put into the object as it is, whatever else was sent.
    of_part = target.sub == "status" and not target.served.native
    if given.get("uid", before["uid"]) != before["uid"] and not of_part:
        value = f'Invalid value: "{given["uid"]}": field is immutable'
        raise target.invalid(Cause("metadata.uid", value))
    metadata = tidy(given)
    for key in (*_SYSTEM, "name", "namespace", "generation"):
        metadata.pop(key, None)
        if key in before:
            metadata[key] = before[key]
    metadata["resourceVersion"] = before["resourceVersion"]
    if "deletionTimestamp" in before:
        added = set(metadata.get("finalizers", ())) - set(before.get("finalizers", ()))
        if added:
            raise NotServed("finalizers added to an object that is being deleted")
    return metadata


# --- deletion -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    uid: str = ""
    version: str = ""

    def check(self, target: Target, item: Json) -> None:
        """Raises Refused where the object is not the one that is meant."""
        metadata, kind = item["metadata"], target.served.kind
        about = Named(target.name, kind.written, kind.group)
        for name, wanted, has in (
            ("UID", self.uid, metadata["uid"]),
            ("ResourceVersion", self.version, metadata["resourceVersion"]),
        ):
            if wanted and wanted != has:
                why = (
                    f"the {name} in the precondition ({wanted}) does not match the {name} in "
                    f"record ({has}). The object might have been deleted and then recreated"
                    if name == "UID"
                    else f"the ResourceVersion in the precondition ({wanted}) does not match the "
                    f"ResourceVersion in record ({has}). The object might have been modified"
                )
                raise conflict(about, why)


def delete_options(body: Json, query: dict[str, str]) -> DeleteOptions:
    """Of the body, or of the query where there is no body."""
    for key in body.keys() - {"gracePeriodSeconds", "preconditions", "kind", "apiVersion"}:
        raise NotServed(f"a deletion with {key}")
    given = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    return DeleteOptions(
        grace=None if grace is None else int(grace),
        uid=given.get("uid") or "",
        version=given.get("resourceVersion") or "",
    )


def marked_for_deletion(item: Json, *, now: float, grace: int) -> Json:
    """The object as one that is being deleted from now on."""
    metadata = dict(item["metadata"])
    if "generation" in metadata:
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = rfc3339(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    return item | {"metadata": metadata}
