"""Gangs that are broken: since when, and when they are evicted."""

from __future__ import annotations

from typing import NamedTuple


class Staleness(NamedTuple):
    """Verdict on a job's staleness."""

    since: float | None
    """The stamp that it keeps; None where it is whole."""
    evict: bool


def judge(*, stale: bool, since: float | None, grace: float, now: float) -> Staleness:
    """``since``: the stamp that the job has. ``grace``: seconds; negative: for ever. A stamp is set
    when a job is first seen broken, and goes when it is whole again."""
    if not stale:
        return Staleness(None, evict=False)
    begun = now if since is None else since
    return Staleness(begun, evict=grace >= 0 and now - begun >= grace)
