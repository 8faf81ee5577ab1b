"""Parsing of KAI's queues and topologies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import ROUND_FLOOR, Decimal

from shared.errors import InvalidInput
from shared.manifests.fields.durations import check_duration, duration_seconds
from shared.manifests.fields.metadata import labels_of, read_metadata
from shared.manifests.fields.reader import INT32, Fields, loose_name
from shared.model.kai import (
    QUEUE_PRIORITY,
    UNLIMITED,
    KaiLevel,
    KaiQueue,
    KaiShare,
    KaiTopology,
)
from shared.units.slots import LIMIT, MOST_IN_TOTAL

_LEVELS = 16
"""Maximum levels of a topology, as KAI has it."""
_UNITS = {"cpu": 1, "memory": 10**6, "gpu": 1000}
"""Units of a slot in one unit of KAI's fields: thousandths of a core, megabytes, devices."""
_WEIGHT = 1000


def read_kai_queue(obj: dict[str, object]) -> KaiQueue:
    """Read a queue. As KAI's webhook has it, ``resources`` must be there; what is absent in it is
    0."""
    meta = read_metadata(obj, namespaced=False, loose=True)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("KaiQueueSpec")
    parent = spec.text("parentQueue")
    if parent == meta.name:
        raise spec.wrong("parentQueue", "it is the queue itself; write another or leave it out")
    if spec.data.get("resources") is None:
        remedy = "write quota, limit and overQuotaWeight of cpu, memory and gpu (-1: unlimited)"
        raise spec.wrong("resources", f"missing; {remedy}")
    resources = spec.need("resources")
    resources.check("KaiQueueResources")
    return KaiQueue(
        name=meta.name,
        cpu=_share(resources, "cpu"),
        memory=_share(resources, "memory"),
        gpu=_share(resources, "gpu"),
        parent=loose_name(parent, "spec.parentQueue") if parent else "",
        priority=spec.integer("priority", QUEUE_PRIORITY, low=-INT32 - 1),
        created=meta.created or 0.0,
        uid=meta.uid,
        display_name=spec.text("displayName"),
        preempt_min_runtime=_runtime(spec, "preemptMinRuntime"),
        reclaim_min_runtime=_runtime(spec, "reclaimMinRuntime"),
        labels=labels_of(meta),
    )


def _share(resources: Fields, name: str) -> KaiShare:
    share = resources.child(name)
    if share is None:
        return KaiShare()
    share.check("KaiQueueResource")
    unit = _UNITS[name]
    return KaiShare(
        quota=_amount(share, "quota", unit),
        # KAI's own tests have weights of -1, among siblings who all have it: it divides by their
        # sum, so that they are equals.
        weight=_weight(share),
        limit=_amount(share, "limit", unit),
    )


def _weight(share: Fields) -> int:
    """A queue's weight in thousandths."""
    units = _units(share, "overQuotaWeight", _WEIGHT)
    if units is not None and units >= LIMIT:
        raise share.wrong("overQuotaWeight", f"too large; stay below {LIMIT // _WEIGHT}")
    return -_WEIGHT if units is None else units


def _amount(share: Fields, name: str, unit: int) -> int:
    """A quota or a limit in units of the slot; as much as totals can have where it is more."""
    units = _units(share, name, unit)
    return UNLIMITED if units is None else min(units, MOST_IN_TOTAL)


def _units(share: Fields, name: str, unit: int) -> int | None:
    """A number of KAI's in units, rounded down; 0 if it is absent, None for -1."""
    value = share.data.get(name)
    if value is None:
        return 0
    is_number = type(value) is int or (type(value) is float and math.isfinite(value))
    if not is_number:
        raise share.wrong(name, "not a number; write one without quotes or a unit")
    exact = Decimal(repr(value))
    if exact == -1:
        return None
    if exact < 0:
        raise share.wrong(name, "negative; write 0 or more, or -1")
    return int((exact * unit).to_integral_value(rounding=ROUND_FLOOR))


def finer_amounts(obj: Mapping[str, object]) -> Iterator[str]:
    """The fields of a queue, read before, whose amounts had to be rounded down."""
    spec = obj.get("spec")
    resources = spec.get("resources") if isinstance(spec, dict) else None
    if not isinstance(resources, dict):
        return
    for name, unit in _UNITS.items():
        share = resources.get(name)
        units = {"quota": unit, "limit": unit, "overQuotaWeight": _WEIGHT}
        for field, value in share.items() if isinstance(share, dict) else ():
            if type(value) is not float or value.is_integer():
                continue
            if Decimal(repr(value)) * units[field] % 1:
                yield f"spec.resources.{name}.{field}"


def _runtime(spec: Fields, name: str) -> float | None:
    if spec.data.get(name) is None:
        return None
    return duration_seconds(check_duration(spec, name))


def read_kai_topology(obj: dict[str, object]) -> KaiTopology:
    meta = read_metadata(obj, namespaced=False)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("KaiTopologySpec")
    levels: list[KaiLevel] = []
    names: set[str] = set()
    for fields in spec.children("levels", longest=_LEVELS):
        fields.check("KaiTopologyLevel")
        level = KaiLevel(fields.label_key("nodeLabel"), fields.text("alias"))
        for field, name in (("nodeLabel", level.label), ("alias", level.alias)):
            if name and name in names:
                raise fields.wrong(field, "stands there twice; give each level its own")
            names.add(name)
        levels.append(level)
    if not levels:
        raise InvalidInput("spec.levels", None, "missing; write at least one nodeLabel")
    return KaiTopology(meta.name, tuple(levels))
