"""The policy as values: actions in order, plugins in tiers, and their arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.policy.kai_model import KaiPolicy
from shared.policy.metrics_source import MetricsSource
from shared.policy.volcano_names import OFF_BY_DEFAULT


class Dialect(StrEnum):
    """The scheduler whose rules a policy follows."""

    VOLCANO = "volcano"
    KAI = "kai"

    @property
    def scheduler(self) -> str:
        """The name of the scheduler, for people."""
        return "KAI" if self is Dialect.KAI else "Volcano"

    @property
    def most(self) -> str:
        """The dialect's word for the most that a queue may have."""
        return "limit" if self is Dialect.KAI else "capability"


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """One mistake in a policy: field, message with remedy, and the name probably meant."""

    field: str
    """Path from the top of the file (``tiers[1].plugins[0].name``); "" for the whole file."""
    message: str
    value: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class PolicyError(ValueError):
    """The policy cannot be used. The message has one line per problem, with its remedy."""

    def __init__(self, *problems: PolicyProblem | str) -> None:
        self.problems = tuple(
            p if isinstance(p, PolicyProblem) else PolicyProblem("", p) for p in problems
        )
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A plugin of a tier, with the arguments and switches that the file sets."""

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)

    def enabled(self, flag: str) -> bool:
        """The switch as set in the file, else Volcano's default."""
        return self.flags.get(flag, flag not in OFF_BY_DEFAULT)

    def whole(self, argument: str, default: int) -> int:
        """An argument that is a whole number."""
        value = self.arguments.get(argument, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a whole number")

    def number(self, argument: str, default: float) -> float:
        """An argument that is a number."""
        value = self.arguments.get(argument, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a number")

    def duration(self, argument: str, default: float) -> float:
        """An argument such as ``90s``, ``1m30s`` or ``2h``, in seconds."""
        value = self.arguments.get(argument)
        if value is None:
            return default
        seconds = read_duration(value) if isinstance(value, str) else None
        if seconds is None:
            raise PolicyError(
                f"plugin {self.name}: argument {argument} {value!r} is not a duration; "
                "write one such as 90s or 1m30s"
            )
        return seconds

    def mapping(self, argument: str) -> dict[str, object]:
        """An argument that is a mapping; absent = empty."""
        value = self.arguments.get(argument, {})
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return dict(value)
        raise PolicyError(f"plugin {self.name}: argument {argument} is not a mapping of names")

    def switch(self, argument: str, default: bool) -> bool:
        """An argument that is true or false."""
        value = self.arguments.get(argument, default)
        if isinstance(value, bool):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is neither true nor false")

    def text(self, argument: str) -> str:
        """An argument that is text; absent = empty."""
        value = self.arguments.get(argument, "")
        if isinstance(value, str):
            return value
        raise PolicyError(f"plugin {self.name}: argument {argument} is not text")


@dataclass(frozen=True, slots=True)
class Policy:
    """Actions in the order in which they run, and plugins in tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    configurations: dict[str, dict[str, object]] = field(default_factory=dict)
    """Action -> its arguments."""
    warnings: tuple[str, ...] = ()
    """Parts of the file that are accepted but have no effect in this version."""
    metrics: MetricsSource | None = None
    """The source of the nodes' actual usage."""
    dialect: Dialect = Dialect.VOLCANO
    dialect_because: str = field(default="", compare=False)
    """How that was told from the file."""
    kai: KaiPolicy | None = None
    """The rest of a KAI policy; None for Volcano's."""

    @property
    def scheduler_names(self) -> frozenset[str]:
        """Values of schedulerName that the policy itself names as ours."""
        return frozenset() if self.kai is None else frozenset({self.kai.options.scheduler_name})


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


def read_duration(text: str) -> float | None:
    """Parse a duration in Go's notation (``1h30m``) to seconds; None if it is not one."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
