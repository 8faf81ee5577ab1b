"""The seal at the end of a history's line: a checksum over the line and all lines before it.

A line that is changed, added or taken out breaks the chain, so that a file shows by itself whether
it is as it was written. Only its end may be missing, as after a kill. An earlier version wrote
lines without a seal; the chain begins with the first line that has one.
"""

from __future__ import annotations

from zlib import crc32

import orjson

from coordinator.cluster.history.events import Event

START = 0
"""The seal before the first line."""


def sealed_lines(events: list[Event], before: int) -> tuple[list[bytes], int]:
    """The events as lines of a file, and the last seal. ``before``: the seal of the line before."""
    lines = []
    for event in events:
        body = orjson.dumps(event)
        before = crc32(body, before)
        lines.append(b'%s,"seal":"%08x"}\n' % (body[:-1], before))
    return lines, before


def seal_of(event: Event) -> int:
    """The seal of a line that was read; :data:`START` for a line of an earlier version."""
    return int(event.get("seal", "0"), 16)
