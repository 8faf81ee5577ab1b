"""Plugins of others: what installed packages offer at the entry point ``quadrant.plugins``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "quadrant.plugins"


def third_party_plugins() -> dict[str, EntryPoint]:
    """By the name that a policy file uses. Nothing is loaded yet."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}
