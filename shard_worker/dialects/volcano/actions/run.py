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
    import_module(f"{__package__}.{name}").execute(session)
    if name == "allocate":
        _run_again(session)


def _run_again(session: Session) -> None:
    """Run the evicting actions again for jobs whose free room allocate gave to others.

    Allocate goes by its own order of queues and by their shares, so that a job that it passes over
    would get neither the room nor victims in this session.
    """
    waiting, session.left_to_allocate = session.left_to_allocate or (), None
    for job, action in waiting:
        if session.job_starving(job):
            run_for_job(session, job, action)


def run_for_job(session: Session, job: SessionJob, name: str) -> None:
    """Run one action for a single job: one step of it."""
    getattr(import_module(f"{__package__}.{name}"), f"{name}_job")(session, job)


def run_actions(session: Session) -> None:
    """Run the policy's actions in order."""
    for name in session.policy.actions:
        run_action(session, name)
