"""Nodes that refuse bind after bind: when they are set aside, for how long, how many at once."""

from __future__ import annotations

from coordinator.bind.quarantine import AGAIN_SECONDS, FORGET_SECONDS, Quarantines
from shared.records.quarantine import (
    Quarantine,
    decode_quarantine,
    encode_quarantine,
    quarantine_key,
)

NODES = range(40)


def refuse(
    quarantine: Quarantines, row: int, times: int = 5, *, reason: str = "broken", now: float = 0.0
) -> None:
    for _ in range(times):
        quarantine.refused(row, reason, now)


def settled(quarantine: Quarantines, now: float) -> dict[int, Quarantine | None]:
    """Take the changes to store, and confirm that they are stored."""
    changes = quarantine.changes(now, NODES)
    quarantine.stored(changes)
    return changes


def test_refusals_in_a_row_for_the_same_reason_set_a_node_aside() -> None:
    quarantine = Quarantines()
    refuse(quarantine, 3, 4)
    assert quarantine.changes(0.0, NODES) == {}
    refuse(quarantine, 3, 1)
    assert settled(quarantine, 1.0) == {3: Quarantine("broken", 1.0, 61.0)}
    assert list(quarantine.now) == [3]
    assert quarantine.changes(60.0, NODES) == {}
    assert settled(quarantine, 61.0) == {3: None}
    assert not quarantine.now


def test_a_bind_that_is_taken_another_reason_or_time_breaks_the_row() -> None:
    quarantine = Quarantines()
    refuse(quarantine, 1, 4)
    quarantine.took([1])
    refuse(quarantine, 1, 4)
    refuse(quarantine, 2, 4)
    refuse(quarantine, 2, 4, reason="other")
    refuse(quarantine, 3, 4)
    refuse(quarantine, 3, 4, now=FORGET_SECONDS + 1)
    assert quarantine.changes(0.0, NODES) == {}
    assert set(quarantine.suspects) == {1, 2, 3}


def test_a_node_quarantine_is_requested_once() -> None:
    quarantine = Quarantines()
    refuse(quarantine, 3)
    assert 3 in quarantine.changes(0.0, NODES)
    refuse(quarantine, 3)  # of binds that were under way
    assert quarantine.changes(0.0, NODES) == {}


def test_a_node_that_refuses_again_is_left_alone_for_longer_up_to_a_limit() -> None:
    quarantine, now, lengths = Quarantines(), 0.0, []
    for _ in range(7):
        refuse(quarantine, 3, now=now)
        (mark,) = settled(quarantine, now).values()
        assert mark is not None
        lengths.append(mark.until - mark.since)
        now = mark.until
        assert settled(quarantine, now) == {3: None}
    assert lengths == [60, 120, 240, 480, 900, 900, 900]
    now += AGAIN_SECONDS + 1
    refuse(quarantine, 3, now=now)
    (mark,) = settled(quarantine, now).values()
    assert mark is not None
    assert mark.times == 1


def test_where_all_refuse_it_is_not_the_nodes() -> None:
    quarantine = Quarantines()
    for row in NODES:
        refuse(quarantine, row)
    assert len(settled(quarantine, 0.0)) == 4
    assert quarantine.withheld == 36
    lone = Quarantines()
    refuse(lone, 0)
    assert lone.changes(0.0, range(1)) == {}


def test_a_deleted_node_comes_back_with_a_clean_sheet() -> None:
    quarantine = Quarantines()
    refuse(quarantine, 3)
    settled(quarantine, 0.0)
    quarantine.gone(3)
    assert settled(quarantine, 1.0) == {3: None}
    refuse(quarantine, 3, now=2.0)
    (mark,) = settled(quarantine, 2.0).values()
    assert mark is not None
    assert mark.times == 2 or mark.until - mark.since == 60.0


def test_quarantines_are_restored_from_the_ledger() -> None:
    mark = Quarantine("broken", 5.0, 65.0, 2)
    assert decode_quarantine(encode_quarantine(mark)) == mark
    quarantine = Quarantines()
    quarantine.restore({quarantine_key(3): encode_quarantine(mark), "slots": b"", "aside/x": b""})
    assert quarantine.now == {3: mark}
    assert settled(quarantine, 65.0) == {3: None}
    refuse(quarantine, 3, now=70.0)
    (again,) = settled(quarantine, 70.0).values()
    assert again is not None
    assert again.times == 3
