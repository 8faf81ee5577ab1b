"""The conversion of host ports that were slots: what comes of each record."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.class_op import put_class
from shared.ledger.migration.ports_4 import (
    class_without_ports,
    node_without_ports,
    ports_among,
    queue_without_ports,
    slots_without_ports,
)
from shared.ledger.records import (
    USED,
    WIDTH,
    pack_class,
    pack_node,
    pack_queue,
    unpack_class,
    unpack_node,
    unpack_queue,
    unpack_thing,
)
from shared.model.model import TaskClass
from shared.records.specs import decode_class, encode_class
from shared.units.slots import BASE, Slots

NAMES = [*BASE, "port/TCP/80", "nvidia.com/gpu", "port/UDP/53", "port/TCP/81"]
PORTS = ports_among(NAMES)


def test_which_slots_are_ports_and_what_their_numbers_become() -> None:
    assert PORTS == {3: "port/TCP/80", 5: "port/UDP/53", 6: "port/TCP/81"}
    left = slots_without_ports(NAMES)
    assert left == [*BASE, "", "nvidia.com/gpu"]
    slots = Slots(left)
    assert (slots.find("nvidia.com/gpu"), slots.find("")) == (4, None)
    assert slots_without_ports(list(BASE)) == list(BASE)


def test_a_class_that_asked_for_ports() -> None:
    old = TaskClass(requests=((0, 500), (2, 1), (3, 1), (6, 1)), selector=(("zone", "a"),))
    record = pack_class([(0, 500, 0), (2, 1, 0), (3, 1, 1), (6, 1, 1)], encode_class(old))
    made = class_without_ports(record, PORTS, "class 5")
    requests, spec, things = unpack_class(made)
    wanted = TaskClass(
        requests=((0, 500), (2, 1)),
        selector=old.selector,
        things=(("port/TCP/80", (1,)), ("port/TCP/81", (1,))),
    )
    assert decode_class(spec) == wanted
    assert (requests, things) == (put_class(5, wanted).requests, put_class(5, wanted).things)
    assert class_without_ports(made, PORTS, "class 5") == made, "what is converted stays"
    plain = pack_class([(0, 1, 0)], encode_class(TaskClass(requests=((0, 1),))))
    assert class_without_ports(plain, PORTS, "class 6") == plain


amounts = st.integers(0, 3)


@given(
    width=st.integers(0, len(NAMES)),
    numbers=st.lists(amounts, min_size=WIDTH * len(NAMES), max_size=WIDTH * len(NAMES)),
)
def test_a_node_keeps_every_amount_under_its_name(width: int, numbers: list[int]) -> None:
    flat = numbers[: WIDTH * width]
    record, things = node_without_ports(pack_node(7, 2, flat), PORTS, "node 3")
    version, spec, left = unpack_node(record)
    assert (version, spec) == (7, 2)
    left += [0] * (len(flat) - len(left))
    told = {name: unpack_thing(thing) for name, thing in things}
    for slot in range(width):
        before = flat[WIDTH * slot : WIDTH * slot + WIDTH]
        now = left[WIDTH * slot : WIDTH * slot + WIDTH]
        if slot not in PORTS:
            assert now == before
            continue
        assert not any(now)
        kept = [0, *before[USED:]]
        assert told.pop(PORTS[slot], (7, kept)) == (7, kept)
    assert not told, "a port that nobody has has no record"
    assert node_without_ports(record, PORTS, "node 3") == (record, [])


@given(st.randoms())
def test_a_queue_keeps_all_but_ports(draw: random.Random) -> None:
    width = draw.randrange(len(NAMES) + 1)
    columns = [[draw.choice((0, 0, 1, 2**40)) for _ in range(width)] for _ in range(4)]
    columns[1] = [draw.choice((-1, 0, 2**40)) for _ in range(width)]
    before = unpack_queue(record := pack_queue(-1, *columns))
    after = unpack_queue(converted := queue_without_ports(record, PORTS, "queue 1"))
    for part in ("used", "capability", "guarantee", "leaving"):
        kept = {slot: n for slot, n in getattr(before, part).items() if slot not in PORTS}
        assert getattr(after, part) == kept
    assert len(converted) <= len(record)
