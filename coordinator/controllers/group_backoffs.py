"""KAI's PodGroups with ``schedulingBackoff: 1`` that failed: their status says in which node pool.

The condition is written on the object, because it decides: while it is the last one of its pool,
the gang is passed over, by this leader and the next. Whoever moves the gang to another pool, or
takes the condition away, has it tried again. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import KAI_POD_GROUP
from coordinator.intake.documents.metadata import condition
from coordinator.intake.intake import Intake
from coordinator.jobs.pending_reasons import Why
from shared.manifests.kai.groups import UNSCHEDULABLE
from shared.messages.reason import Reason
from shared.model.kai import NEVER_BACK_OFF, KaiPodGroup
from shared.policy.kai_model import node_pool_label

FAILED = frozenset(
    {
        Reason.NO_MATCHING_NODES,
        Reason.EXCEEDS_NODE_CAPACITY,
        Reason.EXCEEDS_CAPABILITY,
        Reason.WAITING_FOR_QUOTA,
        Reason.NOT_ENOUGH_RESOURCES,
        Reason.FRAGMENTED,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
    }
)
"""Reasons of a gang that could be tried and found no place."""
LOOK_SECONDS = 1.0
"""How often gangs are looked at that may fail."""


class GroupBackoffs:
    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._groups: set[str] = set()
        """``namespace/name`` of those that may fail."""

    @property
    def watches(self) -> bool:
        return bool(self._groups)

    def published(self, objects: Iterable[object]) -> None:
        """Take PodGroups that came or changed."""
        for value in objects:
            if isinstance(value, KaiPodGroup):
                if value.backoff == NEVER_BACK_OFF:
                    self._groups.discard(value.key)
                else:
                    self._groups.add(value.key)

    def look(self) -> dict[str, tuple[str, Why]]:
        """Groups that failed now: their node pool, and the reason."""
        core, failed = self._core, dict[str, tuple[str, Why]]()
        groups = core.order.accounts.cluster.objects.kai_groups
        label = node_pool_label(core.order.session.policy.kai)
        by_key = {
            state.job.key: state
            for state in core.order.jobs.values()
            if state.job.kind == "PodGroup" and state.job.key in self._groups
        }
        for key in list(self._groups):
            group, state = groups.get(key), by_key.get(key)
            if group is None:
                self._groups.discard(key)
            elif state is not None and not state.info.held[0] and not group.is_passed_over(label):
                names = core.order.accounts.cluster.names
                reason = why(core, state, names=names)
                if reason is not None and reason.reason in FAILED:
                    failed[key] = (group.pool(label), reason)
        return failed


def mark_failed(intake: Intake, failed: dict[str, tuple[str, Why]], now: float) -> Admission:
    """Write the condition of these PodGroups, as far as they still exist."""
    items = []
    for path, (pool, reason) in failed.items():
        document = intake.documents.get(Key(KAI_POD_GROUP.kind, *path.split("/", 1)))
        if document is not None and document.deleting is None:
            written = document.object()
            message = f"{reason.reason}: {reason.message}"
            own = condition(UNSCHEDULABLE, True, reason="Unschedulable", message=message, at=now)
            before = (written.get("status") or {}).get("schedulingConditions") or []
            others = [other for other in before if other.get("nodePool") != pool]
            conditions = [*others, own | {"nodePool": pool}]
            written["status"] = (written.get("status") or {}) | {"schedulingConditions": conditions}
            items.append(written)
    return intake.admit(items, now) if items else Admission()
