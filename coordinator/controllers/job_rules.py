"""The lifecycle policies of a Job, and the action that the states of its tasks call for.

Pure: states in, rulings out. Judged by present states, not by events, so that nothing is lost where
a coordinator ends between two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from coordinator.intake.documents.document import Document
from shared.errors import Refusal
from shared.manifests.parse import parse_stored
from shared.manifests.volcano.objects import JobManifest
from shared.manifests.volcano.policies import (
    ANY,
    COMPLETE_JOB,
    MIN_SUCCESS,
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    RESTARTS,
    TASK_COMPLETED,
    UNKNOWN,
    DependsOn,
    PolicyManifest,
)
from shared.manifests.volcano.topology import PARTITION_ID
from shared.messages.messages import UNSUCCESSFUL, TaskState
from shared.model.model import Job

_SIGNS = (b'"policies"', b'"ttlSecondsAfterFinished"', b'"dependsOn"', b'"minSuccess"', b'"mpi"')
"""A body without any of these has no policies, and is not parsed."""


_PENDING = (TaskState.PENDING, TaskState.BINDING, TaskState.BOUND)
"""States of a pod that Kubernetes calls Pending."""


@dataclass(frozen=True, slots=True)
class RoleRules:
    name: str
    policies: tuple[PolicyManifest, ...]
    count: int
    needed: int
    """Number of members that must run or have succeeded before dependent roles may start."""
    depends_on: DependsOn | None
    exit_code: int = 0
    """With which its pods end."""


@dataclass(frozen=True, slots=True)
class Rules:
    policies: tuple[PolicyManifest, ...]
    roles: tuple[RoleRules, ...]
    max_retry: int
    ttl: int | None
    min_success: int = 0


@dataclass(frozen=True, slots=True)
class Ruling:
    """The action of a policy, with the event and role that triggered it."""

    action: str
    event: str
    role: str
    timeout: float = 0.0
    """Seconds for which it has to hold before it is due."""


def rules_of(document: Document) -> Rules | None:
    """The policies of a Job; None for a Job without any."""
    if not any(sign in document.body for sign in _SIGNS):
        return None
    manifest = parse_stored(document.object())
    if isinstance(manifest, Refusal) or not isinstance(manifest, JobManifest):
        return None
    roles = tuple(
        RoleRules(
            name=role.name,
            policies=role.policies,
            count=role.count,
            needed=role.count if role.minimum is None else role.minimum,
            depends_on=role.depends_on,
            exit_code=role.exit_code,
        )
        for role in manifest.roles
    )
    rules = Rules(manifest.policies, roles, manifest.max_retry, manifest.ttl, manifest.min_success)
    asks = rules.policies or rules.ttl is not None or rules.min_success
    return rules if asks or any(role.policies or role.depends_on for role in roles) else None


class JobStates(Protocol):
    """A job as the scheduler follows it."""

    @property
    def job(self) -> Job: ...
    @property
    def states(self) -> bytearray: ...
    @property
    def incarnations(self) -> Mapping[int, int]:
        """Tasks that were evicted -> how often."""
        ...

    @property
    def evicted(self) -> Collection[int]:
        """Tasks that are being evicted."""
        ...

    @property
    def admitted(self) -> bool:
        """Whether enqueue has let it in; in Volcano it has no pods before."""
        ...

    @property
    def in_part(self) -> bool:
        """Whether some of it runs, and members that its minimum needs found no place or ended."""
        ...


def rulings(rules: Rules, live: JobStates, seen: Mapping[int, int]) -> Iterator[Ruling]:
    """The actions that the tasks call for, the most important first. ``seen``: task -> number of
    its incarnations that were answered already."""
    job, states = live.job, live.states
    if rules.min_success and states.count(TaskState.SUCCEEDED) >= rules.min_success:
        yield Ruling(COMPLETE_JOB, MIN_SUCCESS, job.roles[0].name)
    ranges = ranges_of(job)
    # Judged by how tasks stand, not by which event came last: of several that hold, a failure
    # decides.
    for event in (POD_FAILED, POD_EVICTED, TASK_COMPLETED, POD_PENDING):
        for role in rules.roles:
            if role.name not in ranges:
                continue
            if not _happened(event, live, *ranges[role.name], seen=seen):
                continue
            # As in Volcano: a task's own policies override the Job's.
            code = role.exit_code if event == POD_FAILED else 0
            policy = _policy(role.policies, event, code) or _policy(rules.policies, event, code)
            if policy is not None:
                yield Ruling(policy.action, event, role.name, policy.timeout)
    if live.in_part and (policy := _policy(rules.policies, UNKNOWN, 0)) is not None:
        yield Ruling(policy.action, UNKNOWN, job.roles[0].name, policy.timeout)


def ranges_of(job: Job) -> dict[str, tuple[int, int]]:
    """First task and end of every role by its name. The parts of a role are adjacent."""
    ranges: dict[str, tuple[int, int]] = {}
    for role in job.roles:
        first, _ = ranges.get(role.name, (role.first, 0))
        ranges[role.name] = first, role.first + role.count
    return ranges


def part_of(job: Job, tix: int) -> str:
    """The partition that a task belongs to; "" for none."""
    return dict(job.role_of(tix).labels).get(PARTITION_ID, "")


def has_part(job: Job, role: str) -> bool:
    """Whether the members of a role are dealt to partitions."""
    return any(part_of(job, part.first) for part in job.roles if part.name == role)


def _happened(
    event: str, live: JobStates, first: int, end: int, *, seen: Mapping[int, int]
) -> bool:
    states = live.states
    if event == POD_FAILED:
        return any(states.find(end_state, first, end) >= 0 for end_state in UNSUCCESSFUL)
    if event == POD_EVICTED:
        evicted = live.incarnations.items()
        return any(
            first <= tix < end and incarnation > seen.get(tix, 0) for tix, incarnation in evicted
        )
    if event == POD_PENDING:
        pending = any(states.find(state, first, end) >= 0 for state in _PENDING)
        return pending and live.admitted
    return states.count(TaskState.SUCCEEDED, first, end) == end - first


def bounds_pending(rules: Rules) -> bool:
    """Whether a policy says for how long pods may be pending."""
    every = (*rules.policies, *(policy for role in rules.roles for policy in role.policies))
    return any(POD_PENDING in policy.events for policy in every)


def minds_parts(rules: Rules) -> bool:
    """Whether a policy is for a job that runs in part."""
    return _policy(rules.policies, UNKNOWN, 0) is not None


def _policy(policies: tuple[PolicyManifest, ...], event: str, code: int) -> PolicyManifest | None:
    """The first policy for this event, or for the exit code of what failed."""
    for policy in policies:
        # Any event but that one: every pod is pending at first. And a job that runs in part names
        # no pod to begin anew.
        unfit = event == POD_PENDING or (event == UNKNOWN and policy.action in RESTARTS)
        anything = ANY in policy.events and not unfit
        if event in policy.events or anything or (code and policy.exit_code == code):
            return policy
    return None


# --- roles that wait for others -------------------------------------------------------------------


def may_begin(rules: Rules, job: Job, states: bytearray) -> list[str]:
    """Roles that are not created yet and whose dependencies are met."""
    ranges = ranges_of(job)
    needed = {role.name: role.needed for role in rules.roles}

    def runs(name: str) -> bool:
        if name not in ranges:
            return not needed[name] and not _waits(rules, name)
        first, end = ranges[name]
        started = sum(states.count(s, first, end) for s in (TaskState.RUNNING, TaskState.SUCCEEDED))
        return started >= needed[name]

    begun = []
    for role in rules.roles:
        if role.depends_on is None or role.name in ranges or not role.count:
            continue
        judge = any if role.depends_on.any else all
        if judge(runs(name) for name in role.depends_on.names):
            begun.append(role.name)
    return begun


def _waits(rules: Rules, name: str) -> bool:
    """Whether a role depends on others and would have members."""
    return any(role.name == name and role.depends_on and role.count for role in rules.roles)


def all_created(rules: Rules, job: Job) -> bool:
    created = {role.name for role in job.roles}
    return all(role.name in created for role in rules.roles if role.count)


# --- how it ended ---------------------------------------------------------------------------------


def outcome(job: Job, states: bytearray, min_success: int = 0) -> str | None:
    """``Completed`` or ``Failed`` where every task has ended, else None."""
    good, bad = states.count(TaskState.SUCCEEDED), sum(map(states.count, UNSUCCESSFUL))
    if good + bad < len(states):
        return None
    if min_success:
        return "Completed" if good >= min_success else "Failed"
    enough = good >= job.groups[0].minimum
    for i, (name, _) in enumerate(job.role_minima, start=1):
        parts = [role for role in job.roles if role.name == name]
        succeeded = sum(
            states.count(TaskState.SUCCEEDED, r.first, r.first + r.count) for r in parts
        )
        enough = enough and succeeded >= job.groups[i].minimum
    return "Completed" if enough else "Failed"
