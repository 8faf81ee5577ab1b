"""The page of end states, made from what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes.end_states.differences import Difference, difference
from tests.kubernetes.end_states.recorded import OURS, THEIRS, Moments, Record, read
from tests.kubernetes.end_states.schedulers import Peer

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "end-states.md"
_HEAD = """\
# End states beside the real schedulers

Walks on a real API server beside the controllers of Kubernetes, Volcano ({volcano}) and KAI
({kai}), once with the scheduler of Volcano or KAI and once with Quadrant. Each table has the fields
that users and other programs read, at each moment of a walk once nothing moves: phases, conditions
with their reasons, types and reasons of events, figures of queues. Where a cell has one value both
left the same. Where it has two, the first is the real scheduler's, the second Quadrant's, and the
letter names the reason below. Objects that controllers name have their owner's name here; those of
one name are counted.

`python -m tests.kubernetes.end_states` runs both and records what it reads, and this page is made
of that. A test runs Quadrant's side of each walk and holds it against the record.
"""


def text(record: Record) -> str:
    head = _HEAD.format(volcano=Peer.VOLCANO.version, kai=Peer.KAI.version)
    return "\n".join([head, *_differences(record), *_tables(record)])


def _differences(record: Record) -> Iterator[str]:
    yield "## Differences\n"
    yield "| | field | of which scheduler | reason |"
    yield "|---|---|---|---|"
    for one in sorted(_used(record), key=lambda used: used.letter):
        yield f"| {one.letter} | {one.what} | {one.peer} | {one.reason} |"
    yield ""


def _used(record: Record) -> set[Difference]:
    return {
        difference(peer, field, theirs, ours)
        for peer, walks in record.items()
        for sides in walks.values()
        for moment in sides[OURS]
        for field, theirs, ours in differing(sides[THEIRS], sides[OURS], moment)
    }


def differing(theirs: Moments, ours: Moments, moment: str) -> Iterator[tuple[str, str, str]]:
    """(field, theirs, ours) of each field in which the two differ."""
    for field in sorted(theirs[moment].keys() | ours[moment].keys()):
        pair = theirs[moment].get(field, ""), ours[moment].get(field, "")
        if pair[0] != pair[1]:
            yield field, *pair


def _tables(record: Record) -> Iterator[str]:
    for peer in Peer:
        yield f"## Beside {peer}\n"
        for walk in peer.walks:
            yield from _table(peer, walk.name, **record[peer.value][walk.name])


def _table(peer: Peer, name: str, theirs: Moments, ours: Moments) -> Iterator[str]:
    yield f"### {peer}: {name}\n"
    yield f"| field | {' | '.join(ours)} |"
    yield "|---" * (1 + len(ours)) + "|"
    for field in sorted(
        {field for fields in (*theirs.values(), *ours.values()) for field in fields}
    ):
        cells = (_cell(peer, field, theirs[moment], ours[moment]) for moment in ours)
        yield f"| {field} | {' | '.join(cells)} |"
    yield ""


def _cell(peer: Peer, field: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    pair = theirs.get(field, ""), ours.get(field, "")
    if pair[0] == pair[1]:
        return pair[0] or "-"
    letter = difference(peer, field, *pair).letter
    return f"{pair[0] or '-'}<br>{pair[1] or '-'} ({letter})"


if __name__ == "__main__":
    PAGE.write_text(text(read()))
