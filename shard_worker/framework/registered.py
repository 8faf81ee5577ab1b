"""A rule as a session keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from shard_worker.framework.rules import Scope
from shared.model.model import TaskClass

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)

Concerns = Callable[[TaskClass], bool]
"""The classes of tasks that a rule may say something about; turns of others need no session."""


@dataclass(frozen=True, slots=True)
class Registered(Generic[F_co, S_co]):
    """A rule at an extension point, with the tier and plugin it came from.

    ``fn`` is its form for the fast path, None where it has none there; ``scalar`` that for sessions
    over a world, None where ``fn`` serves them too."""

    tier: int
    plugin: str
    fn: F_co
    scalar: S_co
    scope: Scope | None = None
    symmetric: bool = False
    """Sessions over a world ask it for every class, although turns without a session need not."""


def any_class(_: TaskClass) -> bool:
    """A rule that may concern every class."""
    return True


def there(form: F | None) -> F:
    """This form of a rule that lacks the other one. Raises TypeError if it is None: then the rule
    has no form at all."""
    if form is None:
        raise TypeError("a rule needs a function for sessions, or its form for the fast path")
    return form
