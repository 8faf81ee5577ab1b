"""Makes a dump of a running service from its lists and its record.

The dump has kubectl's format, with the data from the record where Kubernetes would have it.
Creation times get a fraction of a second and, for jobs with equal times, a microsecond each, so
that a replay keeps their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from coordinator.intake.documents.kinds import WITHOUT_EFFECT
from laboratory.replay.dump import TAKEN, USAGE_KEY
from shared.manifests.fields.metadata import GROUP_NAME
from shared.manifests.kai.groups import pod_group_of
from shared.manifests.kai.queue_usage import written_queue_usage
from shared.policy.file import KAI_KEY, KEY
from shared.policy.model import Dialect
from shared.units.times import rfc3339

Json = dict[str, Any]

LEFT_OUT = WITHOUT_EFFECT
_TICK = 1e-6
"""The smallest step of a time as it is written, so that equal creation times keep their order."""


def snapshot(objects: Iterable[Json], record: Mapping[str, Any]) -> Json:
    """A ``v1`` List: first the data from the record, then the objects."""
    times, jobs = _times(record), _job_names(record)
    by_name = {_named(job) for job in record["jobs"] if not job.get("byUid", True)}
    leaving, promised = set(record["leaving"]), record["promised"]
    items = [_config_map(record)]
    for obj in objects:
        kind = obj.get("kind")
        if kind in LEFT_OUT:
            continue
        meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        copy = {**obj, "metadata": meta}
        if kind == "Pod":
            if _group_of(meta) in by_name or f"Pod/{key}" in by_name:
                meta.pop("uid", None)
            if key in leaving:
                meta.setdefault("deletionTimestamp", rfc3339(record["takenAt"], "microseconds"))
            if promised.get(key):
                copy["status"] = {**obj.get("status", {}), "nominatedNodeName": promised[key]}
        owner = next(
            (o["name"] for o in meta.get("ownerReferences", ()) if o.get("kind") == "Job"), ""
        )
        job = f"Job/{meta.get('namespace')}/{owner}" if owner in jobs else f"{kind}/{key}"
        if job in times and kind in ("Pod", "PodGroup", "Job"):
            meta["creationTimestamp"] = rfc3339(times[job], "microseconds")
        items.append(copy)
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}


def _times(record: Mapping[str, Any]) -> dict[str, float]:
    """``kind/namespace/name`` of each job -> creation time, distinct and in order."""
    times: dict[str, float] = {}
    last = 0.0
    for job in sorted(record["jobs"], key=lambda job: (job["created"], job["number"])):
        last = max(float(job["created"]), last + _TICK)
        times[_named(job)] = last
    return times


def _named(job: Mapping[str, Any]) -> str:
    return f"{job['kind']}/{job['namespace']}/{job['name']}"


def _group_of(metadata: Mapping[str, Any]) -> str:
    """``PodGroup/namespace/name`` that a pod says it is of."""
    marks = metadata.get("annotations") or {}
    return f"PodGroup/{metadata['namespace']}/{pod_group_of(marks) or marks.get(GROUP_NAME)}"


def _job_names(record: Mapping[str, Any]) -> set[str]:
    return {job["name"] for job in record["jobs"] if job["kind"] == "Job"}


def _config_map(record: Mapping[str, Any]) -> Json:
    """A ConfigMap with the policy, as in Volcano or KAI, what queues used where that counts, and
    the time of the snapshot."""
    policy = record["policy"]
    key = KAI_KEY if policy.get("dialect") == Dialect.KAI else KEY
    data = {key: yaml.safe_dump(policy, sort_keys=False)}
    if (usage := record.get("queueUsage")) is not None:
        data[USAGE_KEY] = written_queue_usage({name: tuple(u) for name, u in usage.items()})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "quadrant-snapshot",
            "namespace": "default",
            "annotations": {
                TAKEN: repr(float(record["takenAt"])),
                "quadrant.dev/shards": str(record["shards"]),
            },
        },
        "data": data,
    }
