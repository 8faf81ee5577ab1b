"""ResourceClaims' allocation and release, as Kubernetes' scheduler and controllers write them.

Before the bind of a task goes out, each of its claims has devices of its node, found as the task's
session found them, and names the pod that uses them; a claim of a template is made for its pod.
After the pod has left it is named no more, and a claim that nobody uses gives its devices back.

Devices are chosen inside the single writer of objects, by the allocations that stand there: so no
device is given twice, whatever several workers chose at the same time. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinator.bind.binder import BindPlan
from coordinator.controllers.device_books import (
    CLAIM,
    ClaimBooks,
    DeviceUser,
    Json,
    users_of,
)
from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.pod_names import owner_of
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key, pod_uid
from coordinator.intake.intake import Intake
from coordinator.jobs.state import SchedulingStatus
from shard_worker.kube_scheduler.devices.pools import Pools
from shared.messages.messages import HOLDING
from shared.model.constraints import Constraints
from shared.model.model import Job, Role


class DeviceController:
    def __init__(
        self,
        core: Coordinator,
        intake: Intake,
        *,
        pod_uid: Callable[[Job, int], str] | None = None,
    ) -> None:
        """``pod_uid``: the uids of a cluster that has its own objects, which also makes the claims
        of templates; None: both are made here."""
        self._core = core
        self._intake = intake
        self._own = pod_uid is None
        self._uid = pod_uid or self._shown_uid
        self._pools: tuple[int, Pools] | None = None

    # --- before the bind ------------------------------------------------------------------------

    def users(self, plan: BindPlan) -> list[DeviceUser]:
        """The tasks of the plan that claim devices. For most plans this costs a look at the classes
        of their jobs."""
        order, users = self._core.order, list[DeviceUser]()
        jobs = {jid: order.jobs[jid].job for jid in dict.fromkeys(plan.jids) if jid in order.jobs}
        claiming = {jid for jid, job in jobs.items() if any(map(self._rules, job.roles))}
        for i, jid in enumerate(plan.jids) if claiming else ():
            tix, node = plan.tasks[i], self._core.nodes.get(plan.rows[i])
            rules = self._rules(jobs[jid].role_of(tix)) if jid in claiming else None
            if rules is not None and node is not None:  # without it, the cluster answers the bind
                claims, templates = rules.claims, rules.claim_templates
                users.append(DeviceUser(i, jobs[jid], tix, node, claims, templates))
        return users

    def _rules(self, role: Role) -> Constraints | None:
        """The constraints of tasks that claim devices; None for others."""
        rules = self._core.order.accounts.classes[role.cid].constraints
        return rules if rules is not None and (rules.claims or rules.claim_templates) else None

    def allocate(
        self, users: Sequence[DeviceUser], failures: dict[int, str], now: float
    ) -> Admission:
        """Write devices and user into the claims of these tasks. Why a task can have none is added
        to ``failures``, by its position; nothing of it is written."""
        items = self.served(users, failures)
        return self._intake.admit(items, now) if items else Admission()

    def served(self, users: Sequence[DeviceUser], failures: dict[int, str]) -> list[Json]:
        """The claims as they are to be written for these tasks; ``failures`` as with
        :meth:`allocate`."""
        books = ClaimBooks(self._intake, self._current_pools(), own=self._own)
        for user in users:
            if why := books.serve(user, self._uid(user.job, user.tix)):
                failures[user.at] = why
        return books.written()

    def _current_pools(self) -> Pools:
        objects = self._core.order.accounts.volumes.objects
        if self._pools is None or self._pools[0] != objects.devices:
            self._pools = (objects.devices, Pools(objects))
        return self._pools[1]

    def _shown_uid(self, job: Job, tix: int) -> str:
        """The uid of the task's pod as it is shown."""
        documents, name = self._intake.documents, job.pod_name(tix)
        key = Key("Pod", job.namespace, name)
        if (document := documents.get(key)) is not None:
            return document.uid
        owner = documents.get(Key("Job", job.namespace, job.name))
        state = self._core.order.known(job.jid)
        evicted = 0 if state is None else state.incarnations.get(tix, 0)
        return "" if owner is None else pod_uid(key, owner, evicted=evicted)

    # --- after the pod --------------------------------------------------------------------------

    def unused(self) -> list[tuple[Key, Json | None]]:
        """Claims that some pod uses no more, and what is left of them: None of a claim that was
        made for this pod."""
        changes: list[tuple[Key, Json | None]] = []
        for claim in list(self._core.order.accounts.cluster.objects.claims.values()):
            key = Key(CLAIM, claim.namespace, claim.name)
            document = self._intake.documents.get(key)
            if not claim.reserved or document is None:
                continue
            written = document.object()
            users = users_of(written)
            left = [user for user in users if not self._is_over(claim.namespace, user)]
            if len(left) == len(users):
                continue
            over = {user.get("uid") for user in users if user not in left}
            owners = written["metadata"].get("ownerReferences") or ()
            if not left and any(owner.get("uid") in over for owner in owners):
                changes.append((key, None))
                continue
            written["status"]["reservedFor"] = left
            if not left:
                written["status"].pop("allocation", None)
            changes.append((key, written))
        return changes

    def free(self, now: float) -> Admission:
        """Write what is left of the claims that stay."""
        items = [written for _, written in self.unused() if written is not None]
        return self._intake.admit(items, now) if items else Admission()

    def drop(self, key: Key, now: float) -> Admission:
        """Delete a claim that was made for a pod, if the pod has left."""
        return self._intake.remove(*key, now) if (key, None) in self.unused() else Admission()

    def _is_over(self, namespace: str, user: Json) -> bool:
        """Whether the pod has left its node, or is none of this server's any more. What others
        reserve is theirs."""
        if user.get("resource") != "pods" or not user.get("name") or not user.get("uid"):
            return False
        registry = self._intake.registry
        packed = registry.pods.get(f"{namespace}/{user['name']}")
        if packed is not None:
            jid, tix = unpack_task(packed)
        elif (owner := owner_of(registry, namespace, user["name"])) is not None:
            jid, tix = owner[0].jid, owner[1]
        else:
            return True
        state = self._core.order.known(jid)
        if state is None or self._uid(state.job, tix) != user["uid"]:
            return True
        if state.status is SchedulingStatus.OPEN or state.unread:
            return False  # the outcome of its turn is not known yet
        return state.states[tix] not in HOLDING
