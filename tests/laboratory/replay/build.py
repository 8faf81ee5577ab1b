"""Objects as kubectl writes them, in few words."""

from __future__ import annotations

from typing import Any

from laboratory.cli.replay.replay_text import run_case
from laboratory.replay.cases import Case, read_cases
from laboratory.replay.cycles import run_cycles
from laboratory.replay.outcome import ReplayResult
from shared.policy.dialect import parse_policy
from tests.builders import objects
from tests.builders.objects import a_list, container

Json = dict[str, Any]


def node(name: str, *, cpu: int = 4, **labels: str) -> Json:
    return objects.node(name, cpu=cpu, memory="64Gi", labels=labels)


def pod(
    name: str,
    *,
    group: str = "",
    cpu: float = 1,
    on: str = "",
    phase: str = "",
    scheduler: str = "volcano",
    **status: Any,
) -> Json:
    """``on``: the node it runs on; else it waits."""
    spec = {"nodeName": on} if on else {}
    requested = container(cpu, "")
    item = objects.pod(name, group=group, schedulerName=scheduler, containers=[requested], **spec)
    status = {"phase": phase or ("Running" if on else "Pending")} | status
    return item | {"status": status}


def group(name: str, *, minimum: int = 1, phase: str = "Inqueue", **spec: Any) -> Json:
    whole: Json = {"minMember": minimum, "queue": "default"} | spec
    return objects.pod_group(name, **whole) | {"status": {"phase": phase}}


def gang(name: str, *, pods: int, cpu: float = 1, on: str = "", **spec: Any) -> list[Json]:
    """A PodGroup that needs all its pods, as a user submits it or, with ``on``, as it runs."""
    members = [pod(f"{name}-{i}", group=name, cpu=cpu, on=on) for i in range(pods)]
    return [group(name, minimum=pods, **spec), *members]


def foreign(name: str, *, on: str, cpu: float = 1, **spec: Any) -> Json:
    """A pod of another scheduler, with whatever its author wrote."""
    pod_item = pod(name, cpu=cpu, on=on, scheduler="default-scheduler")
    pod_item["metadata"]["namespace"] = "kube-system"
    pod_item["spec"] |= spec
    return pod_item


def policy(actions: str, *plugins: str, **flags: bool) -> Json:
    """One tier. ``flags`` of all its plugins."""
    return {"actions": actions, "tiers": [{"plugins": [{"name": p, **flags} for p in plugins]}]}


def case(*items: Json, under: Json, now: float | None = None) -> Case:
    """A dump of these objects, to be decided under a policy."""
    documents = [a_list(*items)]
    [replay_case] = read_cases([("now.yaml", documents)], policy=parse_policy(under), now=now)
    return replay_case


def sessions(case: Case, cycles: int = 1) -> list[ReplayResult]:
    return list(run_cycles(case.policy, case.recorded, name=case.id, cycles=cycles, now=case.now))


def session(*items: Json, under: Json) -> ReplayResult:
    [result] = sessions(case(*items, under=under))
    return result


FORMS = ("session", "one shard", "three shards")
"""The ways to decide a dump, which must agree."""


def decided(form: str, *items: Json, under: Json, now: float | None = None) -> ReplayResult:
    """The objects decided in one of the forms."""
    shards, mode = {"session": (None, "none"), "one shard": (1, "none")}.get(form, (3, "soft"))
    read = case(*items, under=under, now=now)
    [result] = run_case(read, cycles=None, shards=shards, mode=mode, seed=1)
    return result
