"""A Job's lifecycle policies: actions on pod events, and dependencies between roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.errors import InvalidInput
from shared.manifests.fields.reader import Fields

POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
TASK_COMPLETED = "TaskCompleted"
ANY = "*"
EVENTS = (POD_FAILED, POD_EVICTED, TASK_COMPLETED, ANY)

RESTART_JOB = "RestartJob"
ABORT_JOB = "AbortJob"
COMPLETE_JOB = "CompleteJob"
TERMINATE_JOB = "TerminateJob"
ACTIONS = (RESTART_JOB, ABORT_JOB, COMPLETE_JOB, TERMINATE_JOB)

MAX_RETRY = 3
"""Default of ``maxRetry``: restarts at which a job fails instead. With 3 it restarts twice."""

_ROLES = 1000


@dataclass(frozen=True, slots=True)
class PolicyManifest:
    """The action to take on one of these events."""

    events: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The role is created when these roles run: all of them, or with ``any`` at least one."""

    names: tuple[str, ...]
    any: bool


def read_policies(fields: Fields) -> tuple[PolicyManifest, ...]:
    """Read ``policies`` of a job or of one of its tasks."""
    policies: list[PolicyManifest] = []
    named_events: set[str] = set()
    for policy in fields.children("policies", longest=len(EVENTS)):
        policy.check("JobPolicy")
        events = _events(policy)
        for event in events:
            if event in named_events:
                message = f"{event} has an action already; name each event once"
                raise policy.wrong("event", message)
            named_events.add(event)
        if ANY in named_events and len(named_events) > 1:
            raise policy.wrong("event", f"{ANY} stands for every event; leave out the others")
        policies.append(PolicyManifest(events, _action(policy)))
    return tuple(policies)


def _events(policy: Fields) -> tuple[str, ...]:
    """``event`` and ``events`` combined."""
    single = policy.text("event")
    events = ((single,) if single else ()) + policy.texts("events", longest=len(EVENTS))
    if not events:
        raise policy.wrong("event", f"missing; write one of {', '.join(EVENTS)}")
    for event in events:
        if event not in EVENTS:
            where = "event" if event == single else "events"
            message = f"not in this version, or unknown; write one of {', '.join(EVENTS)}"
            raise policy.wrong(where, message)
    return tuple(dict.fromkeys(events))


def _action(policy: Fields) -> str:
    action = policy.text("action")
    if action not in ACTIONS:
        message = f"not in this version, or unknown; write one of {', '.join(ACTIONS)}"
        raise policy.wrong("action", "missing; " + message if not action else message)
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
        around = ", ".join(sorted(waits))
        raise tasks.wrong("tasks", f"{around} wait for one another by dependsOn; break the circle")
