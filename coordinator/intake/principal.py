"""The caller of a request, and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum


class TokenRole(IntEnum):
    """Roles of tokens; each includes those before it."""

    VIEW = 1
    """Read everything; ask for explanations and plans."""
    SUBMIT = 2
    """Write Pods, PodGroups and Jobs, into all queues or into some."""
    ADMIN = 3
    """Write everything."""

    @property
    def word(self) -> str:
        """The role's name in the token file."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. None means no limit beyond that of the role. An admin has no
    limits."""

    name: str
    role: TokenRole
    queues: frozenset[str] | None = None
    """Queues that the caller may submit jobs to. Only for the role ``submit``."""
    namespaces: frozenset[str] | None = None
    """Namespaces whose objects the caller may read and write; cluster-wide objects may be read
    anyway."""
    priority_classes: frozenset[str] | None = None
    """Priority classes that the caller's jobs and pods may name. Only for the role ``submit``.
    System classes, and those above :data:`coordinator.api.auth.privileges.HIGHEST_PRIORITY`, are
    reserved for admins."""


ANYONE = Principal("anyone", TokenRole.ADMIN)
"""The caller where authentication is off."""

NOBODY = Principal("nobody", TokenRole.VIEW)
"""The caller of health checks, which need no token."""

CALLER: ContextVar[Principal] = ContextVar("caller", default=ANYONE)
"""The caller of the current request, for code that does not get the request. Outside of requests
(the coordinator's own work) everything is allowed."""

STANDS: ContextVar[Callable[[], bool]] = ContextVar("stands", default=lambda: True)
"""Whether the token of the current request is still valid. Long responses check it repeatedly, and
end once it is not."""


def may_submit(principal: Principal, queue: str) -> bool:
    """Whether the caller may submit jobs to this queue."""
    if principal.role >= TokenRole.ADMIN:
        return True
    in_reach = principal.queues is None or queue in principal.queues
    return principal.role >= TokenRole.SUBMIT and in_reach


def may_reach(principal: Principal, namespace: str) -> bool:
    """Whether the caller may read this namespace, and write to it as far as the role allows."""
    return principal.namespaces is None or namespace in principal.namespaces


def asker() -> str:
    """The name of whoever asks; "" where no tokens are required."""
    caller = CALLER.get()
    return "" if caller is ANYONE else caller.name


def may_plant(principal: Principal) -> bool:
    """Whether the caller may submit pods of a PodGroup that does not exist yet; their queue will be
    that of the later PodGroup."""
    return principal.role >= TokenRole.ADMIN or principal.queues is None
