"""Which role a request needs: from its method and the route it found, nothing else.

==============================================  ==================================================
open                                            for probes: ``/livez``, ``/healthz``, ``/readyz``,
                                                ``/health``; the files of the page, ``/ui/``
``view``                                        everything that reads; explanations and plans
``submit``                                      writing Pods, PodGroups, Jobs, and what stands in
                                                files beside them; lists of objects
``admin``                                       writing anything else, and looking into processes
==============================================  ==================================================

The queue a job goes to is judged where the object is known
(:mod:`coordinator.api.auth.authorization`).
"""

from __future__ import annotations

from coordinator.intake.documents.kinds import (
    ATTACHED,
    JOB,
    KINDS,
    POD,
    POD_GROUPS,
    Kind,
)
from coordinator.intake.principal import TokenRole

RECORD = "/apis/quadrant.dev/v1alpha1/record"
QUEUE_TREE = "/apis/quadrant.dev/v1alpha1/queuetree"
QUEUE_PAIRS = "/apis/quadrant.dev/v1alpha1/queuepairs"
FRAMES = "/apis/quadrant.dev/v1alpha1/frames"
SHADOW = "/apis/quadrant.dev/v1alpha1/shadow"
_DEBUG = ["apis", "quadrant.dev", "v1alpha1", "debug"]
_OPEN = ("livez", "healthz", "readyz", "health", "ui", "")
"""The last one is the server's root, which leads to the page."""
_READS = ("GET", "HEAD", "OPTIONS")
_ASKED = ("explain", "plans", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
"""Kinds requested by POST that change nothing."""
_OF_QUEUES = (POD, *POD_GROUPS, JOB, *ATTACHED)
_SUBMITTED = frozenset(
    (
        *((kind.group, kind.plural) for kind in _OF_QUEUES),
        ("quadrant.dev", "lists"),
    )
)


def _base(kind: Kind) -> str:
    return f"/{'apis' if kind.group else 'api'}/{kind.api_version}"


def needed(method: str, route: str | None) -> TokenRole | None:
    """The role that a request needs; None if it needs no token. ``route`` is the pattern of the
    path (``/api/v1/namespaces/{namespace}/pods``), which identifies the handler however the path
    was written. It is None if no handler matches: then role view is enough, to learn just that."""
    if route is None:
        return TokenRole.VIEW
    parts = route.strip("/").split("/")
    if parts[0] in _OPEN and method in _READS:
        return None
    if parts[:4] == _DEBUG:
        return TokenRole.ADMIN
    if method in _READS or (method == "POST" and parts[-1] in _ASKED):
        return TokenRole.VIEW
    return TokenRole.SUBMIT if _resource(parts) in _SUBMITTED else TokenRole.ADMIN


_EVERYWHERE = frozenset(
    (
        *(f"{_base(kind)}/{kind.plural}" for kind in KINDS if kind.namespaced),
        *(RECORD, QUEUE_TREE, QUEUE_PAIRS),
    )
)
"""Routes that show all namespaces. ``/stream`` and the page's frames do as well, but filter by what
their caller may see; otherwise it would be useless to a tenant."""


def shows_all_namespaces(route: str) -> bool:
    return route in _EVERYWHERE


def _resource(parts: list[str]) -> tuple[str, str]:
    """(group, plural) of ``api/v1/...`` or ``apis/GROUP/VERSION/...``; "" if absent."""
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
