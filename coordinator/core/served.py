"""Notices to the author of a field that the policy in force does not serve.

The object is accepted all the same, because the policy may change (docs/decisions/0052). Without
the notice its author would have to look up why the job waits, or would never learn that a budget
has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.step import Notice
from coordinator.intake.changes import Changes
from coordinator.intake.documents.kinds import BY_KIND
from coordinator.jobs.state import JobState
from shard_worker.session_model.demands import (
    PREFERENCES,
    DemandEntry,
    Preference,
    remedy,
    unserved_preferences,
)
from shared.messages.reason import Reason
from shared.model.kai import KaiQueue
from shared.model.model import Node, WorldObject
from shared.model.storage import Budget, ResourceQuota

_HARD_TAINTS = ("NoSchedule", "NoExecute")


def notices_of(core: Coordinator, changes: Changes) -> Iterator[Notice]:
    """Notices about objects that Order has taken. Most lists have none, and cost a comparison a
    job: Order has judged the demands already."""
    served = core.order.session.eligibility.served
    lacking = [entry for preference, entry in PREFERENCES.items() if preference not in served]
    for job in changes.jobs:
        state = core.order.jobs.get(job.jid)
        if state is None:
            continue
        if state.reason is Reason.NOT_SERVED or not core.order.session.eligibility.in_pool(job):
            yield from _of_demands(core, state)
        for preference in unserved_preferences(job, served) if lacking else ():
            yield Notice(BY_KIND[job.kind].written, job.key, _no_effect(PREFERENCES[preference]))
    yield from _of_other_pools(core, changes)
    for value in (*changes.nodes, *changes.objects) if lacking else ():
        kind, asks = _preference_of(value)
        if asks is not None and asks not in served:
            yield Notice(kind, _key_of(value), _no_effect(PREFERENCES[asks]))


def _of_demands(core: Coordinator, state: JobState) -> Iterator[Notice]:
    order, job = core.order, state.job
    kept_out = order.session.eligibility.kept_out(state.info, order.accounts.cluster)
    if kept_out is not None:
        reason, message = kept_out
        yield Notice(
            BY_KIND[job.kind].written, job.key, f"it is kept and waits ({reason}): {message}"
        )


def _of_other_pools(core: Coordinator, changes: Changes) -> Iterator[Notice]:
    """Yield notices for nodes and queues of other node pools; jobs have a reason for it."""
    pool = core.order.session.eligibility.pool
    if pool is None:
        return
    for node in changes.nodes:
        if not pool.has(node.labels):
            where = pool.why_not(node.labels)
            yield Notice("Node", node.name, f"it is kept, and not used: it is {where}")
    for value in changes.objects:
        if isinstance(value, KaiQueue) and (where := core.queues.where(value.name)):
            yield Notice("Queue", value.name, f"it is kept, and nothing counts in it: {where}")


def _preference_of(value: Node | WorldObject) -> tuple[str, Preference | None]:
    """(kind, what it asks for)."""
    match value:
        case Node():
            hard = any(taint.effect in _HARD_TAINTS for taint in value.taints)
            return "Node", Preference.TAINTS if hard else None
        case Budget():
            return "PodDisruptionBudget", Preference.BUDGET
        case ResourceQuota():
            return "ResourceQuota", Preference.QUOTA
        case _:
            return "", None


def _key_of(value: Node | WorldObject) -> str:
    namespace = getattr(value, "namespace", "")
    return f"{namespace}/{value.name}" if namespace else value.name


def _no_effect(entry: DemandEntry) -> str:
    return f"the policy in force does not serve {entry.field}, so {entry.without}: {remedy(entry)}"
