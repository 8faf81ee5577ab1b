"""KAI's rules at the engine's own points: what Order and turns over columns ask, on live totals.

A replay runs KAI's actions over a whole world (:mod:`shard_worker.dialects.kai.session`). A
service has turns instead, of which Order gives one after the other, and workers place each over
columns. Both use the same rules (:mod:`shard_worker.dialects.kai.rules`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from math import inf

from shard_worker.dialects.kai.actions import consolidation
from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.mig import LEGACY, names_instances
from shard_worker.dialects.kai.node_kinds import NodeKinds
from shard_worker.dialects.kai.plugins import predicates
from shard_worker.dialects.kai.plugins.min_runtime import LongestRuntime
from shard_worker.dialects.kai.plugins.nodes import IDLE
from shard_worker.dialects.kai.plugins.orders import not_head, not_master, task_priority
from shard_worker.dialects.kai.rules.devices import Score
from shard_worker.dialects.kai.rules.groups import ElasticClass, OrderKey, order_key
from shard_worker.dialects.kai.service.devices import ServiceDevices
from shard_worker.dialects.kai.service.gangs import TREE, lacking_sub_group
from shard_worker.dialects.kai.service.node_scores import (
    KindOfNode,
    NodePlacementScores,
    SharingOrder,
)
from shard_worker.dialects.kai.service.queues import order_queues
from shard_worker.dialects.kai.service.turn_session import OWN_SHARD
from shard_worker.framework.broken_gangs import BrokenGang
from shard_worker.framework.flat_rules import LevelScores
from shard_worker.framework.rules import PERMIT, REJECT
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Demand, Preference
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress
from shard_worker.session_model.world import World
from shared.manifests.kai.groups import UNSCHEDULABLE
from shared.messages.messages import HOLDING, TaskState
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.gpu_request import WHOLE
from shared.model.kai import PREEMPTIBLE_BELOW, KaiPodGroup
from shared.model.model import Job
from shared.model.node_pool import node_pool_of
from shared.policy.kai_model import KaiPolicy, SearchBudgets
from shared.policy.model import PluginOption, Policy

GANG = "gang"
"""The engine's name of the rules that keep gangs whole."""


def open_service_session(policy: Policy) -> Session:
    """A session of a KAI policy for a service."""
    kai = policy.kai or KaiPolicy()
    session = Session(policy)
    session.eligibility.pool = node_pool_of(policy)
    session.reads_residents = any(name in EVICTING for name in policy.actions)
    options = [option for tier in policy.tiers for option in tier]
    devices = ServiceDevices(_device_score(frozenset(option.name for option in options)))
    session.flat.devices = devices
    session.flat.goes_on = False
    session.flat.levels = LevelScores(0.0, OWN_SHARD)
    with session.speaking(0, PluginOption(GANG)):
        _Gangs().register(session)
        session.read_annotations(TREE)
        session.serve(Demand.GPU_FRACTION)
        session.add_job_valid_fn(_Backoffs(kai.options.nodepool_label_key).why_not)
        order_queues(session, policy)
        session.group_key = sub_group_key
        session.evicts_for, session.evicts_from = is_searched_for, delayed_until
        session.broken_gang = StaleRule(kai.options.default_staleness_grace_period).judge
    for option in options:
        with session.speaking(0, option):
            _register(session, option, devices)
    with session.speaking(0, PluginOption(GANG)):
        session.add_task_order_fn(key=lambda role: role.first)  # ties: the older pod, as in KAI
    session.warnings += [f"a service differs from KAI: {text}" for text in _deviations(kai)]
    return session


def _deviations(kai: KaiPolicy) -> Iterator[str]:
    """Yield the settings of the policy that a service decides otherwise, to report at check and
    start."""
    for action in sorted(EVICTING.keys() & kai.queue_depth.keys()):
        yield f"queueDepthPerAction.{action}: victims are searched for one job after the other"
    if kai.budgets != SearchBudgets():
        yield "scenarioSearchBudgets: searches end by their number of scenarios, not by times"


def _device_score(plugins: Collection[str]) -> Score:
    """The sum of what the policy's plugins say of a device, by what is used of it."""
    pack, spread = "gpupack" in plugins, "gpuspread" in plugins
    return lambda used: (pack - spread) * (used or 0) / WHOLE + spread


def _register(session: Session, option: PluginOption, devices: ServiceDevices) -> None:
    match option.name:
        case "predicates":
            predicates.register(session)
            kinds = NodeKinds((session.policy.kai or KaiPolicy()).options)
            session.add_predicate_fn(masks=kinds.of_class)
        case name if name in ORDERS:
            ORDERS[name](session)
        case "minruntime":
            session.protected_seconds = LongestRuntime(option).seconds
        case "nodeplacement":
            session.add_node_order_fn(scorer=NodePlacementScores(option, devices))
        case "nodeavailability":
            session.flat.levels = LevelScores(IDLE, OWN_SHARD)
        case "gpusharingorder":
            session.add_node_order_fn(scorer=SharingOrder(devices))
        case "resourcetype":
            session.add_node_order_fn(scorer=KindOfNode())
        case _:
            pass


# --- jobs -----------------------------------------------------------------------------------------


class _Gangs:
    """A job starts with the pods that it needs, or not at all. No plugin of KAI's: always so."""

    def register(self, session: Session) -> None:
        session.serve(Preference.GANG)
        session.add_job_valid_fn(_why_not)
        session.add_job_ready_fn(_whole_job_ready, counted=_ready)
        session.add_job_pipelined_fn(_whole_job_pipelined, counted=_pipelined)
        session.add_job_starving_fn(lambda info: info.pending > 0)


class _Backoffs:
    """schedulingBackoff: a PodGroup that failed in its node pool is passed over there."""

    def __init__(self, label: str) -> None:
        self._label = label

    def why_not(self, info: JobInfo, cluster: ClusterInfo) -> str | None:
        group = cluster.objects.kai_groups.get(info.job.kai_group)
        if group is None or not group.is_passed_over(self._label):
            return None
        text = (
            f"it failed in node pool {group.pool(self._label)} and has schedulingBackoff 1: it is "
            f"passed over there until its label {self._label} names another pool, or its condition "
            f"{UNSCHEDULABLE} is taken away"
        )
        return written(Reason.ATTEMPTS_EXHAUSTED, text)


def _ready(progress: Progress) -> bool:
    members, extra = progress.held, progress.best_effort
    return all(h + e >= n for h, e, n in zip(members, extra, progress.minimum, strict=True))


def _pipelined(progress: Progress) -> int:
    member_counts = zip(progress.held, progress.waiting, progress.best_effort, strict=True)
    least = progress.minimum
    return PERMIT if all(sum(n) >= m for n, m in zip(member_counts, least, strict=True)) else REJECT


def _whole_job_ready(job: SessionJob, world: World) -> bool:
    del world
    return job.is_ready and job.roles_reach(lambda now: now.ready + now.pending_best_effort)


def _whole_job_pipelined(job: SessionJob, world: World) -> int:
    del world
    reached = job.is_pipelined and job.roles_reach(
        lambda now: now.ready + now.waiting + now.pending_best_effort
    )
    return PERMIT if reached else REJECT


def _why_not(info: JobInfo, cluster: ClusterInfo) -> str | None:
    """Why the job cannot be placed as it is."""
    job, objects = info.job, cluster.objects
    if job.queue and job.queue in objects.kai_parents:
        text = f"queue {job.queue} has queues below it, and only leaves hold jobs; name one of them"
        return written(Reason.NOT_SERVED, text)
    if any(names_instances(role.annotations) for role in job.roles):
        return written(Reason.NOT_SERVED, LEGACY)
    group = objects.kai_groups.get(job.kai_group)
    if group is not None and group.sub_groups:
        return _missing_in_tree(info, group)
    # Sub groups before the job as a whole: that pods are missing somewhere says little.
    for index, part in sorted(enumerate(job.groups), key=lambda group: not group[0]):
        members = [role for role in job.roles if not index or role.group == index]
        present = sum(role.count for role in members) - (0 if index else info.failed)
        if present < part.minimum:
            name = "the job" if not index else f"sub group {job.role_minima[index - 1][0]}"
            return f"NotEnoughPods: {present} of the {part.minimum} pods that {name} needs exist"
    return None


def _missing_in_tree(info: JobInfo, group: KaiPodGroup) -> str | None:
    pods: dict[str, int] = {}
    for role in info.job.roles:
        pods[role.name] = pods.get(role.name, 0) + role.count
    lacking = lacking_sub_group(group, pods)
    return f"NotEnoughPods: {lacking}" if lacking else None


def is_searched_for(action: str, info: JobInfo, cluster: ClusterInfo) -> bool:
    """Not in its ``preemptionDelay``, and consolidation for jobs alone that may be evicted
    themselves."""
    job = info.job
    group = cluster.objects.kai_groups.get(job.kai_group)
    if group is None:
        return job.priority < PREEMPTIBLE_BELOW or action != consolidation.NAME
    if cluster.now < delayed_until(info, cluster):
        return False
    return action != consolidation.NAME or group.is_preemptible(job.priority)


def delayed_until(info: JobInfo, cluster: ClusterInfo) -> float:
    """When the job's ``preemptionDelay`` is over; 0 without one."""
    job = info.job
    group = cluster.objects.kai_groups.get(job.kai_group)
    if group is None or group.preemption_delay <= 0:
        return 0.0
    return group.delayed_until(job.created)


def _elastic_class(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs below the minimum of some sub group, then those at all of them, then those above one."""
    del cluster
    first = min(1, len(info.job.groups) - 1)  # the job itself has no minimum beside its sub groups'
    beyond = [n - group.minimum for n, group in zip(info.held, info.job.groups, strict=True)][
        first:
    ]
    if min(beyond) < 0:
        return ElasticClass.BELOW
    return ElasticClass.ABOVE if max(beyond) > 0 else ElasticClass.AT


def sub_group_key(info: JobInfo, group: int) -> OrderKey:
    """Which sub group of a job goes first; ``group`` 0 is the job, where it has none."""
    name = info.job.role_minima[group - 1][0] if group else ""
    members, minimum = info.held[group], info.job.groups[group].minimum
    return order_key(name, satisfied=members >= minimum, held=members, threshold=minimum)


ORDERS: Mapping[str, Callable[[Session], None]] = {
    "priority": lambda session: session.add_job_order_fn(key=lambda info, _: -info.job.priority),
    "elastic": lambda session: session.add_job_order_fn(key=_elastic_class),
    "kubeflow": lambda session: session.add_task_order_fn(key=not_master),
    "ray": lambda session: session.add_task_order_fn(key=not_head),
    "taskorder": lambda session: session.add_task_order_fn(key=task_priority),
}
"""Plugin -> how it registers."""


class StaleRule:
    """Broken gangs by the states of their tasks, and for how long they may be so."""

    def __init__(self, usual: float) -> None:
        """``usual``: seconds, for groups that do not say so themselves; negative: for ever."""
        self._usual = usual

    def judge(self, info: JobInfo, states: bytearray, cluster: ClusterInfo) -> BrokenGang | None:
        """None where the job is no broken gang. One of which a task has succeeded is about to
        end."""
        if info.qid < 0:  # it is another node pool's, or nobody's
            return None
        job, held = info.job, Counter[str]()
        for role in job.roles:
            part = states[role.first : role.first + role.count]
            held[role.name] += sum(map(part.count, HOLDING))
        if TaskState.SUCCEEDED in states or not held.total():
            return None
        group = cluster.objects.kai_groups.get(job.kai_group)
        if not _lacks(job, group, held):
            return None
        grace, since = self._usual, None
        if group is not None:
            since = group.stale_since
            grace = grace if group.staleness_grace is None else group.staleness_grace
        return BrokenGang(grace if grace >= 0 else inf, since)


def _lacks(job: Job, group: KaiPodGroup | None, held: Counter[str]) -> bool:
    if group is not None and group.sub_groups:
        return bool(lacking_sub_group(group, held))
    if held.total() < job.groups[0].minimum:
        return True
    members: Counter[int] = Counter()
    for role in job.roles:
        members[role.group] += held[role.name]
    return any(members[at] < part.minimum for at, part in enumerate(job.groups) if at)
