"""Phases, conditions, events and queue figures of a cluster, as texts that two runs can share.

Objects that a controller names have the name of their owner, without a number at the end; those of
one name are counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from laboratory.local_kubernetes.client import ApiClient
from tests.kubernetes.end_states.walk import Fields, Json

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
KAI = "/apis/scheduling.run.ai"
PODS = "/api/v1/namespaces/default/pods"
_DRAWN = re.compile(r"(-[0-9a-f]{8}-[0-9a-f-]{27}|-[0-9]{8,}|-[0-9a-z]{8,10}|-[0-9a-z]{5})$")
"""The part of a name that a controller draws: a uid, a time, a hash or five letters."""
PASSING = frozenset({"PodGrouperWarning", "BindingError", "CommitConflict"})
"""Events of an attempt that is repeated: they come by chance."""
OF_WAITING = frozenset({"FailedScheduling", "Unschedulable", "NotReady"})
"""Events that are of no account where nothing waits: whether a scheduler looked before the last pod
of a gang came is by chance."""
_WAITING = ("Pending", "Inqueue")
_COUNTS = ("pending", "inqueue", "running", "unknown", "completed")


async def of_volcano(cluster: ApiClient) -> Fields:
    groups = await _items(cluster, f"{VOLCANO}/namespaces/default/podgroups")
    fields = await _pods_and_events(cluster, groups)
    for kind, path in (
        ("Job", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"),
        ("JobFlow", "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"),
    ):
        _add(fields, kind, "phase", await _items(cluster, path), _state)
    _add(fields, "PodGroup", "phase", groups, lambda item: _status(item).get("phase", ""))
    _add(fields, "PodGroup", "conditions", groups, lambda item: _conditions(item, "conditions"))
    _add(fields, "PodGroup", "pods", groups, _pod_counts)
    queues = await _items(cluster, f"{VOLCANO}/queues")
    _add(fields, "Queue", "state", queues, lambda item: _status(item).get("state", ""))
    _add(fields, "Queue", "PodGroups", queues, _group_counts)
    for field in ("allocated", "reservation"):
        _add(fields, "Queue", field, queues, partial(_amounts_of, field=field))
    return fields


async def of_kai(cluster: ApiClient) -> Fields:
    groups = await _items(cluster, f"{KAI}/v2alpha2/namespaces/default/podgroups")
    fields = await _pods_and_events(cluster, groups)
    _add(fields, "PodGroup", "phase", groups, lambda item: _status(item).get("phase", ""))
    _add(
        fields,
        "PodGroup",
        "schedulingConditions",
        groups,
        lambda item: _conditions(item, "schedulingConditions"),
    )
    requests = await _items(cluster, f"{KAI}/v1alpha2/namespaces/default/bindrequests")
    _add(fields, "BindRequest", "phase", requests, lambda item: _status(item).get("phase", ""))
    queues = await _items(cluster, f"{KAI}/v2/queues")
    for field in ("allocated", "allocatedNonPreemptible", "requested"):
        _add(fields, "PodGroup", field, groups, partial(_resources, field=field))
        _add(fields, "Queue", field, queues, partial(_amounts_of, field=field))
    return fields


async def _pods_and_events(cluster: ApiClient, groups: list[Json]) -> Fields:
    fields: Fields = {}
    pods = await _items(cluster, PODS)
    _add(fields, "Pods", "phase", pods, lambda item: _status(item).get("phase", ""), count=True)
    _add(fields, "Pods", "PodScheduled", pods, _scheduled, count=True)
    some_pod = any(not pod["spec"].get("nodeName") for pod in pods)
    some_group = any(_status(group).get("phase") in _WAITING for group in groups)
    waiting = {"Pod": some_pod, "PodGroup": some_pod or some_group, "Queue": True}
    reasons: defaultdict[str, set[str]] = defaultdict(set)
    for event in await _items(cluster, "/api/v1/events"):
        kind, reason = event["involvedObject"]["kind"], event["reason"]
        if kind not in waiting or reason in PASSING:
            continue
        if waiting[kind] or reason not in OF_WAITING:
            reasons[kind].add(f"{event['type']} {reason}")
    for kind, texts in reasons.items():
        fields[f"{kind}: events"] = ", ".join(sorted(texts))
    return fields


async def _items(cluster: ApiClient, path: str) -> list[Json]:
    items: list[Json] = (await cluster.get(path))["items"]
    return items


def _add(
    fields: Fields,
    kind: str,
    field: str,
    items: Iterable[Json],
    value: Callable[[Json], str],
    *,
    count: bool = False,
) -> None:
    """Add the field of each owner's objects; without a value in any of them it is left out."""
    by_owner: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        by_owner[_owner(item)][value(item)] += 1
    for owner, values in by_owner.items():
        if any(values):
            several = count or values.total() > 1
            fields[f"{kind} {owner}: {field}"] = ", ".join(
                f"{many} {text or 'none'}" if several else text
                for text, many in sorted(values.items())
            )


def _owner(item: Json) -> str:
    metadata = item["metadata"]
    owners = metadata.get("ownerReferences")
    name: str = owners[0]["name"] if owners else metadata["name"]
    while (shorter := _DRAWN.sub("", name)) != name:
        name = shorter
    return name.rstrip("0123456789")


def _status(item: Json) -> Json:
    return item.get("status") or {}


def _state(item: Json) -> str:
    return str((_status(item).get("state") or {}).get("phase", ""))


def _scheduled(pod: Json) -> str:
    for condition in _status(pod).get("conditions") or ():
        if condition["type"] == "PodScheduled":
            return " ".join(filter(None, (condition["status"], condition.get("reason"))))
    return ""


def _conditions(item: Json, field: str) -> str:
    """The newest: older ones of other types stay, and whether there are any is by chance."""
    conditions = _status(item).get(field) or ()
    if not conditions:
        return ""
    newest = max(reversed(conditions), key=lambda one: one.get("lastTransitionTime", ""))
    reasons = (explained["reason"] for explained in newest.get("reasons") or ())
    words = (newest["type"], newest.get("status"), newest.get("reason"), *reasons)
    return " ".join(dict.fromkeys(filter(None, words)))


def _pod_counts(group: Json) -> str:
    counts = ((name, _status(group).get(name)) for name in ("running", "succeeded", "failed"))
    return ", ".join(f"{many} {name}" for name, many in counts if many)


def _group_counts(queue: Json) -> str:
    counts = ((name, _status(queue).get(name)) for name in _COUNTS)
    return ", ".join(f"{many} {name}" for name, many in counts if many)


def _amounts_of(queue: Json, field: str) -> str:
    return _amounts(_status(queue), field)


def _resources(group: Json, field: str) -> str:
    return _amounts(_status(group).get("resourcesStatus") or {}, field)


def _amounts(status: Json, field: str) -> str:
    """Amounts above zero: those of zero are written by all, and at different times."""
    amounts = sorted((status.get(field) or {}).items())
    return ", ".join(f"{resource} {text}" for resource, text in amounts if text != "0")
