"""A Job's lifecycle policies: actions on pod events, and dependencies between roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.errors import InvalidInput, did_you_mean
from shared.manifests.fields.durations import check_duration, duration_seconds
from shared.manifests.fields.reader import Fields
from shared.units.amount_text import some

POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
POD_PENDING = "PodPending"
TASK_COMPLETED = "TaskCompleted"
MIN_SUCCESS = "MinSuccess"
"""No event of a policy: enough pods succeeded (``minSuccess``)."""
UNKNOWN = "Unknown"
"""Some pods of the Job run, and others that its minimum needs are not placed."""
ANY = "*"
EVENTS = (POD_FAILED, TASK_COMPLETED, POD_EVICTED, POD_PENDING, UNKNOWN, ANY)
"""Events that policies are carried out for."""
KEPT_EVENTS = ("TaskFailed",)
"""Events of Volcano that nothing follows from here."""

RESTART_JOB = "RestartJob"
ABORT_JOB = "AbortJob"
COMPLETE_JOB = "CompleteJob"
TERMINATE_JOB = "TerminateJob"
RESTART_TASK = "RestartTask"
RESTART_POD = "RestartPod"
RESTART_PARTITION = "RestartPartition"
RESTARTS = (RESTART_TASK, RESTART_POD, RESTART_PARTITION)
"""Actions that begin some pods of a Job anew, while the others run on."""
ACTIONS = (RESTART_JOB, ABORT_JOB, COMPLETE_JOB, TERMINATE_JOB, *RESTARTS)

MAX_RETRY = 3
"""Default of ``maxRetry``: restarts at which a job fails instead. With 3 it restarts twice."""

_ROLES = 1000
_POLICIES = 100
_EXIT_CODES = 255


@dataclass(frozen=True, slots=True)
class PolicyManifest:
    """The action to take on one of these events, or where a pod fails with this exit code."""

    events: tuple[str, ...]
    action: str
    exit_code: int = 0
    """0: none, the events count."""
    timeout: float = 0.0
    """Seconds for which the event has to hold before the action is taken."""


@dataclass(frozen=True, slots=True)
class Policies:
    """``carried_out``: in the order written. ``notices``: why the others are only kept."""

    carried_out: tuple[PolicyManifest, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The role is created when these roles run: all of them, or with ``any`` at least one."""

    names: tuple[str, ...]
    any: bool


def read_policies(fields: Fields) -> Policies:
    """Read ``policies`` of a job or of one of its tasks."""
    policies: list[PolicyManifest] = []
    notices: list[str] = []
    triggers: set[str | int] = set()
    for policy in fields.children("policies", longest=_POLICIES):
        policy.check("JobPolicy")
        events, code, action = _events(policy), _exit_code(policy), _action(policy)
        _check_triggers(policy, events, code, triggers)
        timeout = check_duration(policy, "timeout")
        if why := _kept_only(events, action, duration_seconds(timeout)):
            notices.append(f"{policy.at}: {why}")
        seconds = duration_seconds(timeout)
        carried_out = tuple(event for event in events if _carried_out(event, seconds))
        if action in RESTARTS:
            carried_out = tuple(event for event in carried_out if event != UNKNOWN)
        if carried_out or code:
            policies.append(PolicyManifest(carried_out, action, code, seconds))
    return Policies(tuple(policies), tuple(notices))


def _check_triggers(
    policy: Fields, events: tuple[str, ...], code: int, triggers: set[str | int]
) -> None:
    """Check what the policy is for, and add it to what those before it are for."""
    remedy = "write event, events or exitCode, and exitCode beside none of the others"
    if bool(events) == bool(code):
        raise policy.wrong(
            "event", f"{'not allowed beside exitCode' if code else 'missing'}; {remedy}"
        )
    for trigger in events or (code,):
        if trigger in triggers:
            message = f"{trigger} has an action already; name each event once"
            raise policy.wrong("exitCode" if code else "event", message)
        triggers.add(trigger)
    if ANY in triggers and len([t for t in triggers if type(t) is str]) > 1:
        raise policy.wrong("event", f"{ANY} stands for every event; leave out the others")


def _carried_out(event: str, timeout: float) -> bool:
    # Every pod is pending when it is created: without a timeout the action would come at once.
    return event in EVENTS and (event != POD_PENDING or timeout > 0)


def _kept_only(events: tuple[str, ...], action: str, timeout: float) -> str:
    """Why the policy, or a part of it, is not carried out; "" if all of it is."""
    why: list[str] = []
    if action in RESTARTS and UNKNOWN in events:
        why.append(f"{UNKNOWN} names no pod that {action} could begin anew; write {RESTART_JOB}")
    if unheard := [event for event in events if event not in EVENTS]:
        why.append(f"{', '.join(unheard)}: nothing follows from it here")
    if POD_PENDING in events and not timeout:
        why.append(f"{POD_PENDING} without timeout: every pod is pending at first; add a timeout")
    return f"kept and shown; {'; '.join(why)}" if why else ""


def _exit_code(policy: Fields) -> int:
    """The exit code; 0 for none."""
    if policy.data.get("exitCode") is None:
        return 0
    return policy.integer("exitCode", 0, low=1, high=_EXIT_CODES)


def _events(policy: Fields) -> tuple[str, ...]:
    """``event`` and ``events`` combined."""
    event_names = (*EVENTS, *KEPT_EVENTS)
    single = policy.text("event")
    events = ((single,) if single else ()) + policy.texts("events", longest=len(event_names))
    for event in events:
        if event not in event_names:
            where = "event" if event == single else "events"
            hint = did_you_mean(event, event_names)
            raise policy.wrong(
                where, f"unknown; {hint}write one of {', '.join(sorted(event_names))}"
            )
    return tuple(dict.fromkeys(events))


def _action(policy: Fields) -> str:
    action = policy.text("action")
    if action not in ACTIONS:
        state = "unknown" if action else "missing"
        hint = did_you_mean(action, ACTIONS)
        raise policy.wrong("action", f"{state}; {hint}write one of {', '.join(ACTIONS)}")
    return action


def read_depends_on(task: Fields) -> DependsOn | None:
    fields = task.child("dependsOn")
    if fields is None:
        return None
    fields.check("JobDependsOn")
    names = fields.texts("name", longest=_ROLES)
    iteration = fields.choice("iteration", ("any", "all"), "all")
    return DependsOn(names, iteration == "any") if names else None


def check_dependencies(tasks: Fields, roles: Iterable[tuple[str, DependsOn | None]]) -> None:
    """Check that every named role exists, and that no role depends on itself, even indirectly."""
    waits = {name: set(on.names) if on is not None else set() for name, on in roles}
    for i, others in enumerate(waits.values()):
        for missing in sorted(others - waits.keys()):
            at = f"{tasks.path('tasks')}[{i}].dependsOn.name"
            raise InvalidInput(at, missing, "no task has this name; write the name of another one")
    while free := [name for name, others in waits.items() if not others]:
        for name in free:
            del waits[name]
        for others in waits.values():
            others.difference_update(free)
    if waits:
        around = some(sorted(waits), 5)
        raise tasks.wrong("tasks", f"{around} wait for one another by dependsOn; break the circle")
