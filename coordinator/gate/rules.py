"""Which role a request needs: from its method and the route it found, nothing else.

==============================================  ==================================================
open                                            for probes: ``/livez``, ``/healthz``, ``/readyz``,
                                                ``/health``
``view``                                        everything that reads; explanations and plans
``submit``                                      writing Pods, PodGroups, Jobs; lists of objects
``admin``                                       writing anything else
==============================================  ==================================================

The queue a job goes to is judged where the object is known (:mod:`coordinator.gate.rights`).
"""

from __future__ import annotations

from coordinator.gate.principal import Role
from coordinator.objects.kinds import JOB, POD, POD_GROUP

SUBMITTED = frozenset(kind.kind for kind in (POD, POD_GROUP, JOB))
"""Kinds that a submitter may write."""

_OPEN = ("livez", "healthz", "readyz", "health")
_READS = ("GET", "HEAD", "OPTIONS")
_ASKED = ("explain", "plans")
"""Asked by POST, and changing nothing."""
_SUBMITTED = frozenset(
    (*((kind.group, kind.plural) for kind in (POD, POD_GROUP, JOB)), ("quadrant.dev", "lists"))
)


def needed(method: str, route: str | None) -> Role | None:
    """The role; None = no token is needed.

    ``route`` is the pattern of the path (``/api/v1/namespaces/{namespace}/pods``): what a handler
    will run, however the path was written. None where there is no handler: whoever may look may
    know that.
    """
    if route is None:
        return Role.VIEW
    parts = route.strip("/").split("/")
    if parts[0] in _OPEN and method in _READS:
        return None
    if method in _READS or (method == "POST" and parts[-1] in _ASKED):
        return Role.VIEW
    return Role.SUBMIT if _resource(parts) in _SUBMITTED else Role.ADMIN


def _resource(parts: list[str]) -> tuple[str, str]:
    """Group and plural of ``api/v1/...`` or ``apis/GROUP/VERSION/...``; "" where there is none."""
    match parts:
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return "", ""
    if rest[:2] == ["namespaces", "{namespace}"]:
        rest = rest[2:]
    return group, rest[0] if rest else ""
