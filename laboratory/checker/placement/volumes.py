"""Volumes of placed tasks: reachable, in the right zone, and within the node's limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from laboratory.checker.placement.labels import Labels, on_node
from laboratory.checker.state.books import CheckerBooks, Facts

CLAIM, VOLUME, CLASS, CSI = "volumeclaim/", "volume/", "storageclass/", "csinode/"

_NEWER = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ZONES = (*_NEWER, *_NEWER.values())
_BETWEEN = "__"
"""Separator of the zones of a volume that several zones reach."""


class Volumes:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._users: dict[int, Counter[tuple[str, str]]] = {}
        """Row -> (driver, volume) -> number of tasks that use it there."""
        self._claims: dict[int, Counter[tuple[str, str]]] = {}
        """Row -> (namespace, claim) -> number of tasks with it there."""
        self._came: dict[int, int] = {}
        """Row -> the line at which a claim came there that no other task there had."""
        self._owner: dict[str, str] = {}
        """Volume -> the claim that was bound to it last."""

    def wrong(self, row: int, namespace: str, rules: Facts) -> str:
        """Why a task with these volumes may not be on a row; "" if it may."""
        for name in rules["volumes"]:
            claim = self._claim(namespace, name)
            if claim is None:
                return f"its claim {name} does not exist"
            if why := self._unreached(row, claim):
                return f"its claim {name} {why}"
        return ""

    def attach(self, row: int, namespace: str, rules: Facts, by: int) -> None:
        """Add (1) or remove (-1) a task's volumes on a row."""
        users = self._users.setdefault(row, Counter())
        for volume in self._attachments(namespace, rules):
            users[volume] += by
        claims = self._claims.setdefault(row, Counter())
        for name in rules["volumes"]:
            if by > 0 and not claims[namespace, name]:
                self._came[row] = self._books.findings.line
            claims[namespace, name] += by

    def beyond(self, row: int) -> str:
        """The driver whose volume limit the row exceeds; "" if none. A task brings nothing whose
        claims all are there with others: their volumes may be known since then alone."""
        if self._came.get(row) != self._books.findings.line:
            return ""
        users = self._users.get(row, Counter())
        node = self._books.objects.get(CSI + self._books.nodes.names[row], {})
        counts = Counter(driver for (driver, _), count in users.items() if count > 0)
        for driver, limit in node.get("limits", ()):
            if counts[driver] > limit:
                return f"{counts[driver]} volumes of {driver} there, it takes {limit}"
        return ""

    def shared(self, key: str) -> str:
        """The problem with a claim's volume, where another claim has it; "" if none has."""
        if not key.startswith(CLAIM):
            return ""
        volume = self._books.objects[key]
        if not _is_bound(volume):
            return ""
        before = self._owner.get(volume["volume"], key)
        self._owner[volume["volume"]] = key
        other = self._books.objects.get(before, {})
        if before == key or not _is_bound(other) or other.get("volume") != volume["volume"]:
            return ""
        return f"{key} is bound to volume {volume['volume']}, and so is {before}"

    def unbound(self, namespace: str, rules: Facts) -> str:
        """A claim of the class that has no volume; "" if all that exist have one."""
        claims = {name: self._claim(namespace, name) for name in rules["volumes"]}
        return next((n for n, claim in claims.items() if claim and not _is_bound(claim)), "")

    # --- one claim --------------------------------------------------------------------------------

    def _claim(self, namespace: str, name: str) -> Facts | None:
        return self._books.objects.get(f"{CLAIM}{namespace}/{name}")

    def _unreached(self, row: int, claim: Facts) -> str:
        objects = self._books.objects
        if not _is_bound(claim):
            storage = objects.get(CLASS + self._class_name(claim), {})
            waits = storage.get("waits") and not claim.get("volume")
            return "" if waits else "is not bound to a volume"
        volume = objects.get(VOLUME + claim["volume"])
        if volume is None:
            return f"is bound to volume {claim['volume']}, which does not exist"
        labels = self._books.labels_of(row)
        terms = volume.get("affinity")
        if terms is not None and not on_node(terms, self._books.nodes.names[row], labels):
            return f"is volume {claim['volume']}, which this node does not reach"
        return _outside(dict(volume.get("labels", ())), labels)

    def _class_name(self, claim: Facts) -> str:
        if (named := claim.get("storage_class")) is not None:
            return str(named)
        classes = self._books.objects.items()
        defaults = [c["name"] for key, c in classes if key.startswith(CLASS) and c.get("default")]
        return min(defaults, default="")

    def _attachments(self, namespace: str, rules: Facts) -> Iterator[tuple[str, str]]:
        """(driver, volume) of the claims bound to a volume with a CSI driver."""
        for name in rules["volumes"]:
            claim = self._claim(namespace, name) or {}
            volume = self._books.objects.get(VOLUME + claim.get("volume", ""))
            if volume is not None and volume.get("driver"):
                yield volume["driver"], volume.get("handle") or volume["name"]


def _is_bound(claim: Facts) -> bool:
    return bool(claim.get("volume")) and (
        claim.get("bound", False) or claim.get("phase") == "Bound"
    )


def _outside(zones: Labels, labels: Labels) -> str:
    """Why the labels are outside the zones; "" if they are not. Nodes without any zone label accept
    every volume."""
    if not any(key in labels for key in _ZONES):
        return ""
    for key, value in zones.items():
        if key in _ZONES:
            node_zone = labels.get(key, labels.get(_NEWER.get(key, key)))
            if node_zone not in value.split(_BETWEEN):
                return f"is in {value}, the node in {node_zone}"
    return ""
