"""Admission of KAI's objects: queues, PodGroups and topologies.

They are stored whichever policy is in force. Under a policy of Volcano's nothing looks at them, and
who submits one is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.intake.admission.step import AdmissionStep
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.model.kai import UNLIMITED, KaiPodGroup, KaiQueue, KaiShare, KaiTopology
from shared.model.model import WorldObject
from shared.policy.model import Dialect
from shared.records.specs import OBJECT_KEYS

NOT_LOOKED_AT = (
    "kept and not looked at: the policy in force is {0}'s; it counts under one of {1}'s, which "
    "takes a restart with that policy"
)


def admit_kai_queue(step: AdmissionStep, new: KaiQueue) -> None:
    """Admit a queue. Its parent may come later; it must not be above itself."""
    queues = KaiQueues(step)
    old = queues.get(new.name)
    new_record = replace(new, created=step.created(new.created) if old is None else old.created)
    for above in queues.above(new):
        if above == new.name:
            message = "is below this queue, which would be above itself; choose another parent"
            raise InvalidInput("spec.parentQueue", new.parent, message)
    _store(step, new, new_record)
    for message in _over_quota(queues, new_record):
        step.notice(new, message)


def admit_kai_pod_group(step: AdmissionStep, new: KaiPodGroup) -> None:
    _store(step, new, new)


def admit_kai_topology(step: AdmissionStep, new: KaiTopology) -> None:
    _store(step, new, new)


class KaiQueues:
    """The queues of KAI's kind, those of the list included, by name."""

    def __init__(self, step: AdmissionStep) -> None:
        self._objects = step.draft.objects

    def get(self, name: str) -> KaiQueue | None:
        value = self._objects.get(OBJECT_KEYS[KaiQueue] + name)
        return value if isinstance(value, KaiQueue) else None

    def above(self, queue: KaiQueue) -> Iterator[str]:
        """The names above a queue, nearest first, as far as they exist; ends where they repeat."""
        seen: set[str] = set()
        name = queue.parent
        while name and name not in seen:
            yield name
            seen.add(name)
            parent = self.get(name)
            name = "" if parent is None else parent.parent

    def children(self, name: str) -> list[KaiQueue]:
        queues = (value for value in self._objects.values() if isinstance(value, KaiQueue))
        return [queue for queue in queues if queue.parent == name]


def child_of(objects: Mapping[str, WorldObject], name: str) -> str:
    """The name of a queue below this one; "" where there is none."""
    queues = (value for value in objects.values() if isinstance(value, KaiQueue))
    return min((queue.name for queue in queues if queue.parent == name), default="")


def _store(step: AdmissionStep, manifest: WorldObject, value: WorldObject) -> None:
    """Store the record, under the manifest that the rest of admission knows it by."""
    if step.dialect is not Dialect.KAI:
        message = NOT_LOOKED_AT.format(step.dialect.scheduler, Dialect.KAI.scheduler)
        step.notice(manifest, message)
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    key = OBJECT_KEYS[type(value)] + name
    if step.draft.objects.get(key) == value:
        step.same.add(id(manifest))
    else:
        step.draft.objects[key] = value


def _over_quota(queues: KaiQueues, queue: KaiQueue) -> Iterator[str]:
    """Where the quotas of siblings are more than their parent's: as in KAI a warning alone."""
    parent = queues.get(queue.parent)
    if parent is None:
        return
    siblings = queues.children(parent.name)
    for resource in ("cpu", "memory", "gpu"):
        shares: list[KaiShare] = [getattr(sibling, resource) for sibling in siblings]
        whole: KaiShare = getattr(parent, resource)
        quotas = [share.quota for share in shares if share.quota != UNLIMITED]
        if whole.quota != UNLIMITED and sum(quotas) > whole.quota:
            yield (
                f"spec.resources.{resource}.quota: the queues below {parent.name} have more quota "
                "together than it has itself; not all of them can have theirs at once"
            )
