"""Scenarios by the table that they come from: one test plays all of a table, and names each that
comes out otherwise. A test for each scenario took longer to collect than to run."""

from __future__ import annotations

from collections.abc import Iterable


def tables(names: Iterable[str]) -> dict[str, list[str]]:
    """Table -> its scenarios; ``TABLE::TEST::CASE`` is the name of one."""
    scenarios: dict[str, list[str]] = {}
    for name in names:
        scenarios.setdefault(name.partition("::")[0], []).append(name)
    return scenarios
