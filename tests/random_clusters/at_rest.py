"""Every task that can be placed is placed: one session leaves all tasks waiting that shards at rest
leave.

The cluster is recorded where the shards came to rest, and decided by one session over everything
under the same policy. Under a policy that evicts nobody, that session has to find nothing to do.
"""

from __future__ import annotations

from copy import deepcopy

from laboratory.replay.outcome import ReplayResult
from laboratory.replay.sharded import ShardedRun, run_sharded
from laboratory.workloads.drawn_policies import ONE_OF, plugins_of
from shard_worker.view.mode import Mode
from tests.laboratory.replay.build import Json, case, sessions


def left_over(seed: int, policy: Json, objects: list[Json], shards: int, mode: Mode) -> list[str]:
    """The pods that one session would bind after these shards, with their nodes.

    Not those of a job of which others go on waiting: a turn of a service is for the first of them
    that is beyond the gang's minimum, and where it fits nowhere the rest waits behind it.
    """
    under = _calm(policy)
    items = [_plain(obj) for obj in objects]
    replay_case = case(*items, under=under)
    result = run_sharded(
        replay_case.policy,
        replay_case.recorded,
        ShardedRun(shards, mode, seed),
        name=replay_case.id,
    )
    [more] = sessions(case(*_after(items, result), under=under))
    waiting = {group for group, counts in more.tasks.items() if counts.get("Pending")}
    groups = {pod: pod.rpartition("-")[0] for pod in more.binds}
    return [f"{pod} to {more.binds[pod]}" for pod in sorted(groups) if groups[pod] not in waiting]


def _calm(policy: Json) -> Json:
    """The policy without evictions and entry, and with plugins without which the two differ.

    A service keeps queues' capabilities whatever the policy says, and one session only by a plugin.
    Without gang a turn of a service is for the job's first task that waits, and where it fits
    nowhere the others wait behind it.
    """
    tiers, names = deepcopy(policy["tiers"]), plugins_of(policy)
    if not names & set(ONE_OF):
        tiers[-1]["plugins"].append({"name": ONE_OF[0]})
    if "gang" not in names:
        tiers[-1]["plugins"].append({"name": "gang"})
    return {"actions": "allocate, backfill", "tiers": tiers}


def _plain(obj: Json) -> Json:
    """Without volumes: nobody binds claims in a replay, and a pod that waits for its volume holds
    its place in a service alone."""
    if obj["kind"] != "Pod":
        return obj
    return {**obj, "spec": {k: v for k, v in obj["spec"].items() if k != "volumes"}}


def _after(objects: list[Json], result: ReplayResult) -> list[Json]:
    """The objects once what was bound runs, and what was leaving is gone."""
    after = []
    for obj in deepcopy(objects):
        meta, kind = obj["metadata"], obj["kind"]
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        if kind == "Pod" and key in result.binds:
            obj["spec"]["nodeName"] = result.binds[key]
            obj["spec"].pop("schedulingGates", None)
            obj["status"]["phase"] = "Running"
        elif kind == "Pod" and "deletionTimestamp" in meta:
            obj["status"]["phase"] = "Failed"
            del meta["deletionTimestamp"]
        elif kind == "PodGroup" and key in result.pod_groups:
            obj["status"]["phase"] = result.pod_groups[key]["phase"]
        after.append(obj)
    return after
