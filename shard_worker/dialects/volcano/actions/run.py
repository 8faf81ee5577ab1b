"""Run the actions of a policy by name, each over a whole session."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

ACTIONS = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "shuffle",
    "gangpreempt",
    "gangreclaim",
)
"""Names in the policy file; each action is the module of that name in this folder."""


def run_action(session: Session, name: str) -> None:
    """Run one action over the session's world. Its module is imported on first use."""
    action = import_module(f"{__package__}.{name}")
    left = session.left_to_allocate or ()
    if name != "allocate":
        session.left_to_allocate = left
        action.execute(session)
        return
    for room in left:
        room.give_back()
    session.left_to_allocate, session.past_allocate = (), True
    action.execute(session)
    # Allocate goes by its own order of queues and by their shares: a job that it passes over would
    # get neither the room nor victims in this session.
    for room in left:
        if session.job_starving(room.job):
            run_for_job(session, room.job, room.action)


def run_for_job(session: Session, job: SessionJob, name: str) -> None:
    """Run one action for a single job: one step of it."""
    getattr(import_module(f"{__package__}.{name}"), f"{name}_job")(session, job)


def run_actions(session: Session) -> None:
    """Run the policy's actions in order."""
    for name in session.policy.actions:
        run_action(session, name)
