"""The last events of the cluster, as ``quadrant events`` has them."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.api.web.table import Row
from coordinator.intake.documents.kinds import EVENT
from coordinator.objects.changes import ObjectChange
from coordinator.objects.store import Objects
from shared.units.times import moment

EVENT_COLUMNS = (
    "key",
    "namespace",
    "time",
    "type",
    "reason",
    "kind",
    "name",
    "message",
    "count",
)
MOST_EVENTS = 50
"""The events that a page has: the newest of each look. The whole list is at /api/v1/events."""


def event_rows(objects: Objects, changes: Sequence[ObjectChange]) -> list[Row]:
    """The rows of events that changed, oldest first."""
    rows: list[Row] = []
    for change in changes[-MOST_EVENTS:]:
        entry = objects.entry(EVENT, change.key.namespace, change.key.name)
        if entry is None:
            continue
        value = entry.object()
        about = value["involvedObject"]
        rows.append(
            (
                f"{change.key.namespace}/{change.key.name}",
                change.key.namespace,
                moment(value["lastTimestamp"]),
                value["type"],
                value["reason"],
                about["kind"],
                about["name"],
                value["message"],
                value["count"],
            )
        )
    return rows
