"""Nodes that refuse bind after bind: when they are set aside, for how long, how many at once."""

from __future__ import annotations

from coordinator.bind.quarantine import AGAIN_SECONDS, FORGET_SECONDS, SetAside
from shared.records.quarantine import Aside, aside_key, decode_aside, encode_aside

NODES = range(40)


def refuse(
    aside: SetAside, row: int, times: int = 5, *, reason: str = "broken", now: float = 0.0
) -> None:
    for _ in range(times):
        aside.refused(row, reason, now)


def settled(aside: SetAside, now: float) -> dict[int, Aside | None]:
    """What is to be stored, stored."""
    changes = aside.changes(now, NODES)
    aside.stored(changes)
    return changes


def test_refusals_in_a_row_for_the_same_reason_set_a_node_aside() -> None:
    aside = SetAside()
    refuse(aside, 3, 4)
    assert aside.changes(0.0, NODES) == {}
    refuse(aside, 3, 1)
    assert settled(aside, 1.0) == {3: Aside("broken", 1.0, 61.0)}
    assert list(aside.now) == [3]
    assert aside.changes(60.0, NODES) == {}
    assert settled(aside, 61.0) == {3: None}
    assert not aside.now


def test_a_bind_that_is_taken_another_reason_or_time_breaks_the_row() -> None:
    aside = SetAside()
    refuse(aside, 1, 4)
    aside.took([1])
    refuse(aside, 1, 4)
    refuse(aside, 2, 4)
    refuse(aside, 2, 4, reason="other")
    refuse(aside, 3, 4)
    refuse(aside, 3, 4, now=FORGET_SECONDS + 1)
    assert aside.changes(0.0, NODES) == {}
    assert set(aside.suspects) == {1, 2, 3}


def test_what_is_asked_for_is_asked_for_once() -> None:
    aside = SetAside()
    refuse(aside, 3)
    assert 3 in aside.changes(0.0, NODES)
    refuse(aside, 3)  # of binds that were under way
    assert aside.changes(0.0, NODES) == {}


def test_a_node_that_refuses_again_is_left_alone_for_longer_up_to_a_limit() -> None:
    aside, now, lengths = SetAside(), 0.0, []
    for _ in range(7):
        refuse(aside, 3, now=now)
        (mark,) = settled(aside, now).values()
        assert mark is not None
        lengths.append(mark.until - mark.since)
        now = mark.until
        assert settled(aside, now) == {3: None}
    assert lengths == [60, 120, 240, 480, 900, 900, 900]
    now += AGAIN_SECONDS + 1
    refuse(aside, 3, now=now)
    (mark,) = settled(aside, now).values()
    assert mark is not None
    assert mark.times == 1


def test_where_all_refuse_it_is_not_the_nodes() -> None:
    aside = SetAside()
    for row in NODES:
        refuse(aside, row)
    assert len(settled(aside, 0.0)) == 4
    assert aside.withheld == 36
    lone = SetAside()
    refuse(lone, 0)
    assert lone.changes(0.0, range(1)) == {}


def test_a_deleted_node_comes_back_with_a_clean_sheet() -> None:
    aside = SetAside()
    refuse(aside, 3)
    settled(aside, 0.0)
    aside.gone(3)
    assert settled(aside, 1.0) == {3: None}
    refuse(aside, 3, now=2.0)
    (mark,) = settled(aside, 2.0).values()
    assert mark is not None
    assert mark.times == 2 or mark.until - mark.since == 60.0


def test_what_the_ledger_holds_is_known_again() -> None:
    mark = Aside("broken", 5.0, 65.0, 2)
    assert decode_aside(encode_aside(mark)) == mark
    aside = SetAside()
    aside.restore({aside_key(3): encode_aside(mark), "slots": b"", "aside/x": b""})
    assert aside.now == {3: mark}
    assert settled(aside, 65.0) == {3: None}
    refuse(aside, 3, now=70.0)
    (again,) = settled(aside, 70.0).values()
    assert again is not None
    assert again.times == 3
