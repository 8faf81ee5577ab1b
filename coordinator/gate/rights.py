"""May they write these objects? Judged where objects are known, by the queue a job would go to.

What changes an object needs the right to the queue it is in and to the one it goes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.gate.middleware import KEY
from coordinator.gate.principal import ANYONE, CALLER, Principal, Role, may_submit
from coordinator.gate.queues import (
    Item,
    Names,
    group_job,
    group_of,
    is_submitted,
    key_of,
    name_of,
    present_queue,
    queue_of,
)
from coordinator.intake import Admission
from coordinator.kube.lists import Submit
from coordinator.kube.problems import Problem
from coordinator.objects.kinds import Kind
from shared.errors import SHOWN, Refusal, shown

FORBIDDEN = "Forbidden"


def authorize_objects(
    principal: Principal, items: Sequence[Any], names: Names
) -> tuple[list[Any], list[Refusal]]:
    """The objects of a list that the principal may write, in their order, and the refused ones.

    Pods of a PodGroup that comes in the same list go to that one's queue.
    """
    if principal.role >= Role.ADMIN or (may_submit_all(principal) and _only_submitted(items)):
        return list(items), []
    coming = {
        key_of(item): queue_of(item, names)
        for item in items
        if isinstance(item, Mapping) and item.get("kind") == "PodGroup"
    }
    allowed: list[Any] = []
    refused: list[Refusal] = []
    for item in items:
        why = _why_not(principal, item, names, coming) if isinstance(item, Mapping) else ""
        if why:
            refused.append(_refusal(item, why))
        else:
            allowed.append(item)
    return allowed, refused


def may_submit_all(principal: Principal) -> bool:
    return principal.role >= Role.SUBMIT and principal.queues is None


def _only_submitted(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and is_submitted(item) for item in items)


def _why_not(
    principal: Principal, item: Item, names: Names, coming: Mapping[str, str] | None = None
) -> str:
    """Why the principal may not write this object; "" where he may."""
    kind = item.get("kind")
    who = f"the token {principal.name}"
    if principal.role >= Role.ADMIN:
        return ""
    if not is_submitted(item):
        return f"this kind needs role admin; {who} has role {principal.role.word}"
    if principal.role < Role.SUBMIT:
        return f"writing needs role submit; {who} has role {principal.role.word}"
    goes_to = [queue_of(item, names), present_queue(kind, key_of(item), names)]
    if coming and kind == "Pod" and (group := group_of(item)) in coming:
        if group_job(group, names) is not None:  # what comes may be refused: then it stays as it is
            goes_to.append(coming[group])
        else:
            goes_to[0] = coming[group]
    for wanted in goes_to:
        if wanted is not None and not may_submit(principal, wanted):
            has = ", ".join(sorted(principal.queues or ()))
            return f"it goes to, or is in, queue {shown(wanted)}; {who} may submit to {has} only"
    return ""


def _refusal(item: Item, why: str) -> Refusal:
    kind = item.get("kind")
    told = kind[:SHOWN] if isinstance(kind, str) else shown(kind)
    return Refusal(told, name_of(item)[:SHOWN], "", "", why, FORBIDDEN)


# --- the doors --------------------------------------------------------------------------------


def may_write(names: Callable[[], Names]) -> Callable[[web.Request, Kind, Mapping[str, Any]], None]:
    """For what writes one object: raises Problem where the principal of the request may not."""

    def may(request: web.Request, kind: Kind, obj: Mapping[str, Any]) -> None:
        principal = request.get(KEY, ANYONE)
        why = _why_not(principal, {**obj, "kind": kind.kind}, names())
        if why:
            name = name_of({**obj, "kind": ""})
            raise Problem(
                HTTPStatus.FORBIDDEN,
                FORBIDDEN,
                f'{kind.resource} "{name}" is forbidden: {why}',
                kind=kind.plural,
                group=kind.group,
                name=name,
            )

    return may


def guarded(submit: Submit, names: Callable[[], Names]) -> Submit:
    """The same door for lists; each object that its caller may not write is refused."""

    async def guarded_submit(items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
        allowed, refused = authorize_objects(CALLER.get(), items, names())
        if refused and (atomic or not allowed):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                FORBIDDEN,
                f"nothing was taken: {len(refused)} of {len(items)} objects are forbidden, "
                f"the first: {refused[0]}",
                refused=[_told(refusal) for refusal in refused],
            )
        admission = await submit(allowed, atomic=atomic)
        admission.refused += refused
        return admission

    return guarded_submit


def _told(refusal: Refusal) -> dict[str, str]:
    return {
        "kind": refusal.kind,
        "name": refusal.name,
        "reason": refusal.reason,
        "message": refusal.message,
    }
