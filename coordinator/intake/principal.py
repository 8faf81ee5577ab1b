"""Who asks, and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum


class TokenRole(IntEnum):
    """Each may do what those before it may."""

    VIEW = 1
    """Read everything; ask for explanations and plans."""
    SUBMIT = 2
    """Write Pods, PodGroups and Jobs, into all queues or into some."""
    ADMIN = 3
    """Write everything."""

    @property
    def word(self) -> str:
        """As the file of tokens has it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Principal:
    """What None means: no limit beyond that of the role. An admin has no limits."""

    name: str
    role: TokenRole
    queues: frozenset[str] | None = None
    """Those that jobs may be put into. Only of a submitter."""
    namespaces: frozenset[str] | None = None
    """Those whose objects may be read and written; what is in no namespace may be read."""
    priority_classes: frozenset[str] | None = None
    """Those that jobs and pods may name. Only of a submitter. System classes, and those above
    :data:`coordinator.api.auth.privileges.HIGHEST_PRIORITY`, are an admin's in any case."""


ANYONE = Principal("anyone", TokenRole.ADMIN)
"""Who asks where no tokens are asked for."""

NOBODY = Principal("nobody", TokenRole.VIEW)
"""Who asks how the process is, which needs no token."""

CALLER: ContextVar[Principal] = ContextVar("caller", default=ANYONE)
"""Who is being served: for what is called without the request. Set for each request; the
coordinator's own work is nobody's request, and may do everything."""

STANDS: ContextVar[Callable[[], bool]] = ContextVar("stands", default=lambda: True)
"""Whether the token that is being served still counts, for the same: long answers ask again and
again, and end where it does not."""


def may_submit(principal: Principal, queue: str) -> bool:
    """May they put jobs into this queue?"""
    if principal.role >= TokenRole.ADMIN:
        return True
    in_reach = principal.queues is None or queue in principal.queues
    return principal.role >= TokenRole.SUBMIT and in_reach


def may_reach(principal: Principal, namespace: str) -> bool:
    """May they read what is in this namespace, and write as far as their role goes?"""
    return principal.namespaces is None or namespace in principal.namespaces


def may_plant(principal: Principal) -> bool:
    """May they write pods of a PodGroup that does not exist yet, which end in whatever queue that
    one will be in?"""
    return principal.role >= TokenRole.ADMIN or principal.queues is None
