"""Objects by version, as etcd and the API server's caches keep them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from laboratory.api_server.answers import Json, expired
from laboratory.api_server.selectors import Selection

CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Change:
    """``before`` None: the object is new; ``after`` None: it is gone."""

    version: int
    resource: str
    path: str
    before: Json | None
    after: Json | None


class Store:
    """Objects are never changed in place: what was handed out stays as it was."""

    def __init__(self) -> None:
        self.version = 1
        """Of the last write, of any kind."""
        self._objects: dict[str, dict[str, Json]] = {}
        """Resource -> path (``namespace/name``, or the name alone) -> object."""
        self._changes: list[Change] = []
        self._kept_since = 1
        """States of versions before this one are forgotten."""
        self._watched_since = 1
        """A watch begins at this version or later."""

    def get(self, resource: str, path: str) -> Json | None:
        return self._objects.get(resource, {}).get(path)

    def put(self, resource: str, path: str, item: Json) -> Json:
        """Write an object, which nobody changes any more; returns it with its version."""
        objects = self._objects.setdefault(resource, {})
        self.version += 1
        item = item | {"metadata": item["metadata"] | {"resourceVersion": str(self.version)}}
        self._changes.append(Change(self.version, resource, path, objects.get(path), item))
        objects[path] = item
        return item

    def remove(self, resource: str, path: str) -> Json:
        """The object as it was last, of the version of its removal."""
        self.version += 1
        before = self._objects[resource].pop(path)
        change = Change(self.version, resource, path, before, None)
        self._changes.append(change)
        return last_form(change)

    # --- lists ----------------------------------------------------------------------------------

    def at(self, resource: str, version: int) -> dict[str, Json]:
        """Path -> object, as all of a resource was at a version. Raises Refused (410)."""
        if version < self._kept_since:
            raise expired(CONTINUE_TOO_OLD)
        objects = dict(self._objects.get(resource, {}))
        for change in reversed(self._changes):
            if change.version <= version:
                break
            if change.resource != resource:
                continue
            if change.before is None:
                objects.pop(change.path, None)
            else:
                objects[change.path] = change.before
        return objects

    # --- watches --------------------------------------------------------------------------------

    def check_watch(self, version: int) -> None:
        """Raises Refused (410) where a watch cannot begin at this version."""
        if version < self._watched_since:
            raise expired(f"too old resource version: {version} ({self._watched_since})")

    def since(self, resource: str, version: int) -> Iterator[Change]:
        """Changes after a version, in their order."""
        for change in self._changes[self._first_after(version) :]:
            if change.resource == resource:
                yield change

    def _first_after(self, version: int) -> int:
        """Every write is one change, and moves the version by one."""
        return max(0, len(self._changes) - (self.version - version))

    def restart(self) -> None:
        """The API server starts anew: its caches begin with the objects as they are now, and a
        watch from an earlier version is too old."""
        self._watched_since = self.version

    def compact(self) -> None:
        """etcd forgets all versions but the newest."""
        self._kept_since = self.version


def event_of(change: Change, chosen: Selection) -> tuple[str, Json] | None:
    """What a watch of these objects says of a change: (type, object). For who selects by a field,
    an object comes and goes as the field changes."""
    was = change.before is not None and chosen.has(change.before)
    now = change.after is not None and chosen.has(change.after)
    if now:
        assert change.after is not None
        return "MODIFIED" if was else "ADDED", change.after
    if not was:
        return None
    return "DELETED", last_form(change)


def last_form(change: Change) -> Json:
    """What there was before a change, with the version of the change."""
    assert change.before is not None
    metadata = change.before["metadata"] | {"resourceVersion": str(change.version)}
    return change.before | {"metadata": metadata}
