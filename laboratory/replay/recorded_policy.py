"""The policy that a dump has among its objects, and whether any object counts under a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from laboratory.replay.recorded import RecordError
from shared.policy.dialect import dialect_of
from shared.policy.file import KAI_KEY, KEY, SHARD, unwrap
from shared.policy.model import Dialect, Policy, PolicyError
from shared.policy.reading import load_yaml

Json = Mapping[str, Any]

KAI_GROUP = "scheduling.run.ai/"
VOLCANO_GROUPS = ("scheduling.volcano.sh/", "batch.volcano.sh/")
_WHICH = {
    Dialect.KAI: (
        "no Queue of scheduling.run.ai is in it, and under a policy of KAI's only the leaves of "
        "its queues hold jobs{}; add what kubectl get queues.scheduling.run.ai,"
        "podgroups.scheduling.run.ai,topologies.kai.scheduler -A -o yaml writes"
    ),
    Dialect.VOLCANO: (
        "nothing in it counts under a policy of Volcano's{}; give a policy of KAI's with --policy, "
        "for which a file with the line 'dialect: kai' is enough"
    ),
}


def recorded_policy(objects: Iterable[Json]) -> Policy | None:
    """The policy of a ConfigMap, or of the only SchedulingShard; of several ConfigMaps the last.
    Raises PolicyError."""
    shards: list[Json] = []
    policy: Policy | None = None
    for obj in objects:
        if obj.get("kind") == SHARD:
            shards.append(obj)
        elif obj.get("kind") == "ConfigMap" and holds_policy(obj):
            policy = _parsed(obj)
    if policy is not None or not shards:
        return policy
    if len(shards) > 1:
        names = ", ".join(sorted(str((s.get("metadata") or {}).get("name")) for s in shards))
        raise PolicyError(
            f"{len(shards)} SchedulingShards are in it ({names}), and each is a policy of its own; "
            "name one in a file of its own with --policy"
        )
    return _parsed(shards[0])


def _parsed(obj: Json) -> Policy:
    try:
        return unwrap(orjson.dumps(obj).decode()).parse()
    except PolicyError as error:
        raise PolicyError(f"{obj['kind']}: {error}") from None


def holds_policy(config_map: Json) -> bool:
    """Whether it is a scheduler's. Many others have a file of the name that KAI's has."""
    data = config_map.get("data")
    if not isinstance(data, Mapping):
        return False
    return KEY in data or (KAI_KEY in data and _is_kais(data[KAI_KEY]))


def _is_kais(text: object) -> bool:
    try:
        document = load_yaml(text) if isinstance(text, str) else None
        return isinstance(document, Mapping) and dialect_of(document)[0] is Dialect.KAI
    except PolicyError:
        return False


def check_dialect(
    dialect: Dialect, items: Sequence[Json], *, pods: int, left_out: Counter[str]
) -> None:
    """Refuse a dump in which nothing counts under the policy. ``pods``: those of ours among the
    items. Raises RecordError."""
    kai = Counter(str(i["kind"]) for i in items if _group(i).startswith(KAI_GROUP))
    volcano = Counter(str(i["kind"]) for i in items if _group(i).startswith(VOLCANO_GROUPS))
    if dialect is Dialect.KAI:
        ours, others = kai["Queue"] > 0, volcano
    else:
        jobs = pods + volcano["PodGroup"] + volcano["Job"]
        ours, others = jobs > 0 or not kai, kai
    if not ours:
        counts = [f"{count} {kind}s" for kind, count in sorted(others.items())]
        counts += [f"{count} {what}" for what, count in sorted(left_out.items()) if "pods" in what]
        has = f" (it has {', '.join(counts)})" if counts else ""
        raise RecordError(_WHICH[dialect].format(has))


def _group(item: Json) -> str:
    return str(item.get("apiVersion"))
