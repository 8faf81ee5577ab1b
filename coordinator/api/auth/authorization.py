"""Authorization of writes by object: queue, namespace, and privileged fields.

Checked where the objects are known. A change needs the right to the object's current queue and to
its new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.auth.middleware import KEY
from coordinator.api.auth.privileges import not_permitted
from coordinator.api.change.refusals import forbidden
from coordinator.api.write.bulk import SubmitItems
from coordinator.api.write.ports import PermissionCheck
from coordinator.errors import Problem
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.kinds import ATTACHED, Kind
from coordinator.intake.principal import ANYONE, CALLER, Principal, TokenRole, may_reach, may_submit
from coordinator.intake.queue_of import (
    Item,
    QueueNames,
    document_kind,
    group_job,
    group_of,
    is_group,
    is_submitted,
    key_of,
    key_of_group,
    name_of,
    namespace_of,
    present_queue,
    queue_of,
)
from shared.errors import SHOWN, Refusal, shown
from shared.slices import Steps, in_slices
from shared.units.amount_text import some

FORBIDDEN = "Forbidden"
_ATTACHED = frozenset(kind.kind for kind in ATTACHED)


def authorize_objects(
    principal: Principal, items: Sequence[Any], names: QueueNames
) -> Steps[tuple[list[Any], list[Refusal]]]:
    """Split a list into the objects that the principal may write, in order, and refusals.

    In steps: 2,400 pods take 16 ms. An object that changes meanwhile is no other case than one that
    changes while the list waits to be stored.

    Pods of a PodGroup in the same list belong to that PodGroup's queue.
    """
    if principal.role >= TokenRole.ADMIN:
        return list(items), []
    coming: dict[str, str] = {}
    for item in items:
        if isinstance(item, Mapping) and is_group(item, names):
            coming[key_of_group(item)] = queue_of(item, names)
        yield
    allowed: list[Any] = []
    refused: list[Refusal] = []
    for item in items:
        why = _why_not(principal, item, names, coming) if isinstance(item, Mapping) else ""
        if why:
            refused.append(_refusal(item, why))
        else:
            allowed.append(item)
        yield
    return allowed, refused


def _why_not(
    principal: Principal, item: Item, names: QueueNames, coming: Mapping[str, str] | None = None
) -> str:
    """Why the principal may not write this object; "" if they may."""
    return _why_not_here(principal, item, names, coming) or not_permitted(principal, item, names)


def _why_not_here(
    principal: Principal, item: Item, names: QueueNames, coming: Mapping[str, str] | None = None
) -> str:
    """The same by kind, namespace and queue alone."""
    if principal.role >= TokenRole.ADMIN:
        return ""
    has = f"the token {principal.name} has role {principal.role.word}"
    attached = item.get("kind") in _ATTACHED
    if not (attached or is_submitted(item)):
        return f"this kind needs role admin; {has}"
    if principal.role < TokenRole.SUBMIT:
        return f"writing needs role submit; {has}"
    if principal.queues is None and principal.namespaces is None:
        return ""  # the usual case, of each pod of a large list
    beyond = _beyond_namespaces(principal, namespace_of(item))
    return beyond if attached else beyond or _beyond_queues(principal, item, names, coming)


def _beyond_namespaces(principal: Principal, namespace: str) -> str:
    if may_reach(principal, namespace):
        return ""
    has = some(sorted(principal.namespaces or ()), 5)
    return f"it is in namespace {shown(namespace)}; the token {principal.name} is for {has} only"


def _beyond_queues(
    principal: Principal, item: Item, names: QueueNames, coming: Mapping[str, str] | None
) -> str:
    if principal.queues is None:
        return ""
    kind = item.get("kind")
    token_name = f"the token {principal.name}"
    # Where it goes and where it is: with the right to one of them alone a tenant could take over,
    # or push out, the jobs of another (decision 0015).
    goes_to = [queue_of(item, names), present_queue(document_kind(item), key_of(item), names)]
    if coming and kind == "Pod" and (group := group_of(item, names)) in coming:
        if group_job(group, names) is not None:  # what comes may be refused: then it stays as it is
            goes_to.append(coming[group])
        else:
            goes_to[0] = coming[group]
    for queue in goes_to:
        if queue is not None and not may_submit(principal, queue):
            has = some(sorted(principal.queues or ()), 5)
            return (
                f"it goes to, or is in, queue {shown(queue)}; {token_name} may submit to {has} only"
            )
    return ""


def _refusal(item: Item, why: str) -> Refusal:
    kind = item.get("kind")
    kind_text = kind[:SHOWN] if isinstance(kind, str) else shown(kind)
    return Refusal(kind_text, name_of(item)[:SHOWN], "", "", why, FORBIDDEN)


# --- the doors --------------------------------------------------------------------------------


def may_write(names: Callable[[], QueueNames]) -> PermissionCheck:
    """A check for writes of one object: raises Problem if the request's principal may not."""

    def may(
        request: web.Request, kind: Kind, obj: Mapping[str, Any], *, as_it_is: bool = False
    ) -> None:
        principal = request.get(KEY, ANYONE)
        # what an admin gave to an object in a tenant's queue does not keep him from deleting it
        judge = _why_not_here if as_it_is else _why_not
        why = judge(principal, {**obj, "kind": kind.written}, names())
        if why:
            name = name_of({**obj, "kind": ""})
            raise forbidden(kind, name, why)

    return may


def guarded(submit: SubmitItems, names: Callable[[], QueueNames]) -> SubmitItems:
    """A wrapper of list submission that refuses each object which its caller may not write.

    If any is refused and none is left, or the list is atomic, it raises Problem.
    """

    async def guarded_submit(items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
        allowed, refused = await in_slices(authorize_objects(CALLER.get(), items, names()))
        if refused and (atomic or not allowed):
            raise _nothing_was("taken", refused, of=len(items))
        admission = await submit(allowed, atomic=atomic)
        admission.refused += refused
        return admission

    return guarded_submit


def may_plan(principal: Principal, items: Sequence[Any], names: QueueNames) -> None:
    """Check that the principal could submit what they plan. Raises Problem if not.

    A principal with role view may plan for every queue. Kinds other than jobs and pods are assumed
    to exist for the plan and are never stored.
    """
    refused = [
        _refusal(item, why)
        for item in items
        if isinstance(item, Mapping)
        and is_submitted(item)
        and (why := _why_not_planned(principal, item, names))
    ]
    if refused:
        raise _nothing_was("planned", refused, of=len(items))


def _why_not_planned(principal: Principal, item: Item, names: QueueNames) -> str:
    return (
        _beyond_namespaces(principal, namespace_of(item))
        or _beyond_queues(principal, item, names, None)
        or not_permitted(principal, item, names)
    )


def _nothing_was(done: str, refused: Sequence[Refusal], *, of: int) -> Problem:
    return Problem(
        HTTPStatus.FORBIDDEN,
        f"nothing was {done}: {len(refused)} of {of} objects are forbidden, "
        f"the first: {refused[0]}",
        refused=[
            {"kind": each.kind, "name": each.name, "reason": each.reason, "message": each.message}
            for each in refused
        ],
    )
