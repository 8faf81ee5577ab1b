"""Named things of nodes: whatever way their records come, in the end they are the ledger's."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from shard_worker.view.columns import USED
from shard_worker.view.node_things import NodeThings, ReportedThing
from shared.ledger.records import pack_thing
from shared.units.things import port_name

HTTP, HTTPS = port_name("TCP", 80), port_name("TCP", 443)


def reported_thing(row: int, version: int, *, used: int, name: str = HTTP) -> ReportedThing:
    return row, name, pack_thing(version, [0, used, 0, 0, 0])


def is_taken(things: NodeThings, row: int, name: str = HTTP) -> bool:
    return things.count_at(((name, (1,)),), row) == (0, 0)


def test_a_late_reply_does_not_bring_back_what_the_log_has_freed() -> None:
    things = NodeThings()
    things.set([reported_thing(0, 5, used=1)], from_log=True)
    things.set([reported_thing(0, 6, used=0)], from_log=True)
    assert things.set([reported_thing(0, 5, used=1)]) == []
    assert not is_taken(things, 0)
    assert things.set([reported_thing(0, 7, used=1)]) == [0], (
        "what the log has yet to tell counts at once"
    )
    assert is_taken(things, 0)


def test_an_open_statement_does_not_let_a_late_reply_in() -> None:
    things = NodeThings()
    things.set([reported_thing(0, 5, used=1)], from_log=True)
    things.set([reported_thing(0, 6, used=0)], from_log=True)
    things.shift(USED, ((HTTP, (1,)),), 0, 1)
    things.set([reported_thing(0, 5, used=1)])
    things.shift(USED, ((HTTP, (1,)),), 0, -1)
    assert not things.image()


def test_a_reply_that_overtook_the_log_is_followed_by_it() -> None:
    """A log entry about one row says nothing of another, nor does a reply of the log."""
    things = NodeThings()
    things.set([reported_thing(1, 9, used=1)], from_log=True)
    things.set([reported_thing(0, 8, used=0), reported_thing(0, 8, used=1, name=HTTPS)])
    things.set([reported_thing(0, 7, used=1)])
    things.set([reported_thing(0, 7, used=1)], from_log=True)
    assert is_taken(things, 0)
    things.set(
        [reported_thing(0, 8, used=0), reported_thing(0, 8, used=1, name=HTTPS)], from_log=True
    )
    assert not is_taken(things, 0)
    assert is_taken(things, 0, HTTPS)


def test_a_copy_knows_versions_from_the_log() -> None:
    things = NodeThings()
    things.set([reported_thing(0, 5, used=1)], from_log=True)
    things.set([reported_thing(0, 6, used=0)], from_log=True)
    copy = things.kept()
    assert copy.set([reported_thing(0, 5, used=1)]) == []
    copy.set([reported_thing(0, 9, used=1)], from_log=True)
    assert things.set([reported_thing(0, 7, used=1)]) == [0], (
        "and the original nothing of the copy's"
    )


def test_names_that_came_and_went_leave_nothing() -> None:
    things = NodeThings()
    for version in range(1, 201, 2):
        name = port_name("TCP", version)
        things.set([reported_thing(3, version, used=1, name=name)], from_log=True)
        things.set([reported_thing(3, version + 1, used=0, name=name)], from_log=True)
    assert not things._things
    assert len(things._followed) == 4, "one number a row, whatever the names"


@given(seed=st.integers(0, 2**32 - 1))
def test_with_the_log_read_the_things_are_the_ledgers_whenever_replies_came(seed: int) -> None:
    """Each move is an entry of the log; replies show any things as they are, and come at any time
    from then on."""
    draw = random.Random(seed)
    versions, used = [0, 0], {(row, name): 0 for row in range(2) for name in (HTTP, HTTPS)}
    moved = dict.fromkeys(used, 0)
    log: list[list[ReportedThing]] = []
    replies: list[list[ReportedThing]] = []
    things = NodeThings()
    for _ in range(60):
        match draw.choice(("move", "reply", "read", "answer")):
            case "move":
                row = draw.randrange(2)
                versions[row] += 1
                names = [name for name in (HTTP, HTTPS) if draw.random() < 0.6]
                for name in names:
                    used[row, name], moved[row, name] = 1 - used[row, name], versions[row]
                log.append(
                    [reported_thing(row, versions[row], used=used[row, n], name=n) for n in names]
                )
            case "reply":
                replies.append(
                    [
                        reported_thing(
                            row,
                            moved[row, name] if amount else versions[row],
                            used=amount,
                            name=name,
                        )
                        for (row, name), amount in used.items()
                        if draw.random() < 0.7
                    ]
                )
            case "read" if log:
                things.set(log.pop(0), from_log=True)
            case "answer" if replies:
                things.set(replies.pop(draw.randrange(len(replies))))
            case _:
                pass
    for entry in log:
        things.set(entry, from_log=True)
    for reply in replies:
        things.set(reply)
    fresh = NodeThings()
    fresh.set(
        [reported_thing(row, 1, used=1, name=name) for (row, name), has in used.items() if has]
    )
    assert things.image() == fresh.image()
