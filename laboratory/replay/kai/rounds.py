"""Run the rounds of a KAI scenario, each on what the one before left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from laboratory.replay.kai.gpu_groups import key_of
from laboratory.replay.kai.recorded import (
    KaiRecorded,
    read_kai_recorded,
    within_pool,
)
from laboratory.replay.kai.scenario import Json, KaiScenario
from laboratory.replay.recorded import Recorded
from laboratory.replay.session import run_session
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.model.kai_devices import is_group_label, labels_of
from shared.model.model import Queue
from shared.units.times import rfc3339

LAST_START = "kai.scheduler/last-start-timestamp"
STARTED_BEFORE = 60.0
"""Seconds before the clock at which a job with running tasks is taken to have started."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the policy's actions."""

    recorded: KaiRecorded
    session: KaiSession


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """Counts of one round's commits, over all tasks."""

    binds: int
    evictions: int
    pipelined: int

    def as_json(self) -> dict[str, int]:
        return {"binds": self.binds, "evictions": self.evictions, "pipelined": self.pipelined}


@dataclass(frozen=True, slots=True)
class ComparedState:
    """A state that is held against what is expected."""

    kind: str
    """``state``: fed back, with nothing run on it; ``result``: after a round."""
    round: Round
    counts: tuple[RoundCounts, ...]
    """Counts of the rounds since the state before."""


def observed_states(scenario: KaiScenario) -> Iterator[ComparedState]:
    """The states that the scenario's expectation is held against, in order. Raises RecordError,
    PolicyError, LedgerRefused."""
    if scenario.rounds is None:
        once = run_round(scenario, scenario.items)
        yield ComparedState("result", once, (counts_of(once.session),))
        return
    items: Sequence[Json] = scenario.items
    counts: list[RoundCounts] = []
    for _ in range(scenario.rounds.until_match):
        played = run_round(scenario, items)
        counts.append(counts_of(played.session))
        items = fed_back(scenario, items, played)
    yield ComparedState("state", run_round(scenario, items, act=False), tuple(counts))
    for _ in range(scenario.rounds.after_match):
        played = run_round(scenario, items)
        yield ComparedState("result", played, (counts_of(played.session),))
        items = fed_back(scenario, items, played)


def run_round(scenario: KaiScenario, items: Sequence[Json], *, act: bool = True) -> Round:
    """Run the policy's actions once; not ``act``: only look at the cluster."""
    inside, foreign = within_pool(items, scenario.policy)
    recorded = read_kai_recorded(inside, scenario.now, policy=scenario.policy, foreign=foreign)
    recorded.recorded.queues += _missing_queues(recorded.recorded)
    actions = scenario.policy.actions if act else ()
    session = run_session(scenario.policy, recorded.recorded, now=scenario.now, actions=actions)
    if not isinstance(session, KaiSession):
        raise TypeError(f"scenario {scenario.id!r}: its policy is not KAI's")
    return Round(recorded, session)


def _missing_queues(recorded: Recorded) -> list[Queue]:
    """Records of the queues that groups name and nobody has, so that their tasks are in the world.
    KAI's rules do not find them in the tree of queues, and let them wait."""
    queue_names = {queue.name for queue in recorded.queues}
    named = {placed_job.job.queue for placed_job in recorded.placed_jobs if not placed_job.foreign}
    first = max((queue.qid for queue in recorded.queues), default=-1) + 1
    return [Queue(qid, name) for qid, name in enumerate(sorted(named - queue_names), start=first)]


def counts_of(session: KaiSession) -> RoundCounts:
    kinds = [operation.kind for operation in session.committed]
    return RoundCounts(
        kinds.count(OpKind.ALLOCATE), kinds.count(OpKind.EVICT), kinds.count(OpKind.PIPELINE)
    )


# --- what comes of a round ------------------------------------------------------------------------


def fed_back(scenario: KaiScenario, items: Sequence[Json], played: Round) -> list[Json]:
    """The cluster before the next round: what was bound runs, what was promised or evicted waits
    again, nothing else has changed."""
    tasks = {task.key: task for task in played.session.world.tasks()}
    pods = [item for item in items if item["kind"] == "Pod"]
    after = {key_of(pod): _pod_after(pod, tasks.get(key_of(pod)), scenario, played) for pod in pods}
    running = {
        group for pod in after.values() if _runs(pod) and (group := played.recorded.group_of(pod))
    }
    return [
        after[key_of(item)]
        if item["kind"] == "Pod"
        else _group_after(item, scenario.now, running=key_of(item) in running)
        if item["kind"] == "PodGroup"
        else item
        for item in items
    ]


def _pod_after(pod: Json, task: TaskInfo | None, scenario: KaiScenario, played: Round) -> Json:
    if task is None:
        return pod
    match task.status:
        case Status.BINDING | Status.BOUND | Status.ALLOCATED:
            node = played.session.world.node(task.row).name
            groups = played.recorded.group_labels(task, played.session)
            return _with(pod, phase="Running", node=node, groups=groups)
        case Status.PIPELINED:
            return _with(pod, phase="Pending")
        case Status.RELEASING if task.key in played.recorded.stuck:
            return pod
        case Status.RELEASING if not _stays(pod, scenario, played):
            return _with(pod, phase="Pending")
        case _:
            return pod


def _stays(pod: Json, scenario: KaiScenario, played: Round) -> bool:
    """Whether a leaving pod is still there in the next round."""
    group = played.recorded.group_of(pod)
    names = scenario.rounds.stay_releasing if scenario.rounds is not None else frozenset()
    return group in names or group.partition("/")[2] in names


def _runs(pod: Json) -> bool:
    return bool(pod["status"].get("phase") == "Running" and not _deleted(pod))


def _deleted(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _with(pod: Json, *, phase: str, node: str = "", groups: Sequence[str] = ()) -> Json:
    """The pod made anew: in this phase, on this node and these shared devices, without a time of
    deletion."""
    metadata = {k: v for k, v in pod["metadata"].items() if k != "deletionTimestamp"}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if not is_group_label(k)}
    metadata["labels"] = labels | labels_of(groups)
    spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
    if node:
        spec["nodeName"] = node
    return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def _group_after(group: Json, now: float, *, running: bool) -> Json:
    metadata = group["metadata"]
    marks = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_START}
    if running:
        marks[LAST_START] = rfc3339(now - STARTED_BEFORE)
    return {**group, "metadata": {**metadata, "annotations": marks}}
