"""The lifecycle policies of a Job, and the action that the states of its tasks call for.

Pure: states in, verdict out. Judged by present states, not by events, so that nothing is lost where
a coordinator ends between two.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.intake.documents.document import Document
from shared.errors import Refusal
from shared.manifests.parse import parse
from shared.manifests.volcano.objects import JobManifest
from shared.manifests.volcano.policies import (
    ANY,
    COMPLETE_JOB,
    MIN_SUCCESS,
    POD_FAILED,
    TASK_COMPLETED,
    DependsOn,
    PolicyManifest,
)
from shared.messages.messages import UNSUCCESSFUL, TaskState
from shared.model.model import Job

_SIGNS = (b'"policies"', b'"ttlSecondsAfterFinished"', b'"dependsOn"', b'"minSuccess"', b'"mpi"')
"""A body without any of these has no policies, and is not parsed."""


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


def rules_of(document: Document) -> Rules | None:
    """The policies of a Job; None for a Job without any."""
    if not any(sign in document.body for sign in _SIGNS):
        return None
    manifest = parse(document.object())
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


def verdict(rules: Rules, job: Job, states: bytearray) -> Ruling | None:
    """The action due now; None for none. Failures come before completions."""
    if rules.min_success and states.count(TaskState.SUCCEEDED) >= rules.min_success:
        return Ruling(COMPLETE_JOB, MIN_SUCCESS, job.roles[0].name)
    ranges = _ranges(job)
    # Judged by how tasks stand, not by which event came last: of several that hold, a failure
    # decides.
    for event in (POD_FAILED, TASK_COMPLETED):
        for role in rules.roles:
            if role.name not in ranges or not _happened(event, states, *ranges[role.name]):
                continue
            # As in Volcano: a task's own policies override the Job's.
            code = role.exit_code if event == POD_FAILED else 0
            action = _action(role.policies, event, code) or _action(rules.policies, event, code)
            if action is not None:
                return Ruling(action, event, role.name)
    return None


def _ranges(job: Job) -> dict[str, tuple[int, int]]:
    """First task and end of every role by its name. The parts of a role are adjacent."""
    ranges: dict[str, tuple[int, int]] = {}
    for role in job.roles:
        first, _ = ranges.get(role.name, (role.first, 0))
        ranges[role.name] = first, role.first + role.count
    return ranges


def _happened(event: str, states: bytearray, first: int, end: int) -> bool:
    if event == POD_FAILED:
        return any(states.find(end_state, first, end) >= 0 for end_state in UNSUCCESSFUL)
    return states.count(TaskState.SUCCEEDED, first, end) == end - first


def _action(policies: tuple[PolicyManifest, ...], event: str, code: int) -> str | None:
    """The action of the first policy for this event, or for the exit code of what failed."""
    for policy in policies:
        if event in policy.events or ANY in policy.events or (code and policy.exit_code == code):
            return policy.action
    return None


# --- roles that wait for others -------------------------------------------------------------------


def may_begin(rules: Rules, job: Job, states: bytearray) -> list[str]:
    """Roles that are not created yet and whose dependencies are met."""
    ranges = _ranges(job)
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
