"""The scheduler's policy: which actions run and which plugins speak, in Volcano's file format."""

from __future__ import annotations

from dataclasses import dataclass, field


class PolicyError(ValueError):
    """A policy that cannot be used. The message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier: its arguments, and the switches that the file sets."""

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)

    def enabled(self, flag: str) -> bool:
        """The switch as the file has it, else Volcano's default."""
        return self.flags.get(flag, flag not in OFF_BY_DEFAULT)


@dataclass(frozen=True, slots=True)
class Policy:
    """Actions in the order in which they run, plugins in tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    configurations: dict[str, dict[str, object]] = field(default_factory=dict)
    """Action -> its arguments."""


OFF_BY_DEFAULT = frozenset({"enableHierarchy", "enabledClusterOrder"})
DEFAULT_POLICY = Policy(
    actions=("allocate",),
    tiers=(
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(PluginOption(name) for name in ("drf", "predicates", "proportion", "nodeorder")),
    ),
)
