"""Records that ledgers have, as the readers and writers by hand wrote them, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.model.constraints import Taint
from shared.model.devices import Attribute, Device, ResourceSlice
from shared.model.model import Job, Node, PriorityClass, Role, TaskClass
from shared.model.storage import VolumeClaim
from shared.model.topology import HyperNode
from shared.records import quarantine, reservation, specs, specs_jobs, usage
from shared.units.slots import Slots
from tests.coordinator.intake.world_objects import WORLD
from tests.security.samples import CLAIM, CLASS, JOB, NODE, QUEUE, SELECTOR
from tests.shared.records.record_world_objects import FILE

PLAIN_JOB = Job(
    jid=1,
    namespace="ns",
    name="j",
    kind="Pod",
    uid="",
    queue="q",
    created=0.5,
    roles=(Role("w", 4, 0, 2), Role("m", 4, 2, 1, exit_code=3)),
)
DEVICE = Device(
    "d0",
    (Attribute("a", "int", 3), Attribute("b", "bool", True), Attribute("c", "string", "x")),
    (("memory", 80),),
    (Taint("k", "v", "NoSchedule"),),
    True,
)
SLICE = ResourceSlice("s", "gpu.example.com", "pool", 2, 1, "n3", devices=(DEVICE,))
VOLUME_CLAIM = VolumeClaim(
    "ns", "c", "u", 5, None, ("ReadWriteOnce",), selector=SELECTOR, bound=True
)

Row = tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any], str]
RECORDS: dict[str, Row] = {
    "node": (
        NODE,
        specs.encode_node,
        specs.decode_node,
        "990303a26e33929200cd1f4092026e81a47a6f6e65a1619193a16ba176aa4e6f5363686564756c65c302c02e"
        "04dcda",
    ),
    "plain node": (
        Node(0, "n", ((0, 5),)),
        specs.encode_node,
        specs.decode_node,
        "990300a16e919200058090c200c086ffbc5c",
    ),
    "few say": (
        Node(0, "n", (), annotations=(("a", "b"),), images=(("i:latest", 5),)),
        specs.encode_node,
        specs.decode_node,
        "990300a16e908090c200929192a161a1629192a8693a6c617465737405cbbb1ea7",
    ),
    "class": (
        CLASS,
        specs.encode_class,
        specs.decode_class,
        "9603929200649202019192a47a6f6e65a161919194a47a6f6e65a2496e92a161a162c29194a16ba545717561"
        "6ca176a0989196a47a6f6e659194a47a6f6e65a2496e92a161a162c290c2c2009197a47a6f6e6501c39001c3"
        "c29192059194a47a6f6e65a2496e92a161a162c291a176909090c30df24399",
    ),
    "plain class": (
        TaskClass(((2, 1),)),
        specs.encode_class,
        specs.decode_class,
        "96039192020190c090c0b0f6ee1d",
    ),
    "ports": (
        TaskClass(((2, 1),), things=(("port/TCP/80", (1,)),)),
        specs.encode_class,
        specs.decode_class,
        "97039192020190c090c09192ab706f72742f5443502f3830910120e82d4d",
    ),
    "queue": (
        QUEUE,
        specs.encode_queue,
        specs.decode_queue,
        "9d0302a8726573656172636801ff00c3c39192000591920003900094c2cb0000000000000000909491a16190"
        "9090b43d5a82",
    ),
    "job": (
        JOB,
        specs_jobs.encode_job,
        specs_jobs.decode_job,
        "dc00100307a764656661756c74a5747261696ea34a6f62a3752d31a87265736561726368cb3ff80000000000"
        "00009193ff02009299a6776f726b6572040003000193a161a162a163cb4004000000000000039aa66d617374"
        "6572040301000190c000989192a178a13190c2c291cb3fe000000000000091a175a00000c29192a6776f726b"
        "65720191920005979090a093c301a09196a1730100c09194a47a6f6e65a2496e92a161a162c290a0c3182cc9"
        "cf",
    ),
    "plain job": (
        PLAIN_JOB,
        specs_jobs.encode_job,
        specs_jobs.decode_job,
        "dc00100301a26e73a16aa3506f64a0a171cb3fe0000000000000009193ff01009298a177040002000190c099"
        "a16d040201000190c00300c290c0c05838767c",
    ),
    "hypernode": (
        HyperNode.of("rack", 1, ("n3",), ("leaf",)),
        specs.encode_hyper_node,
        specs.decode_hyper_node,
        "9503a47261636b019294c2a56578616374a26e33c094c3a56578616374a46c656166c0a0eae57ae5",
    ),
    "priorityclass": (
        PriorityClass("high", 1000),
        specs.encode_priority_class,
        specs.decode_priority_class,
        "9503a468696768cd03e8c2c391285eb9",
    ),
    "resource claim": (
        CLAIM,
        specs.encode_object,
        lambda data: specs.decode_object("resourceclaim/ns/c", data),
        "9703a26e73a1639192a1729198a3677075a091a17801c2c2909090c090aeacc976",
    ),
    "slice": (
        SLICE,
        specs.encode_object,
        lambda data: specs.decode_object("resourceslice/s", data),
        "9a03a173af6770752e6578616d706c652e636f6da4706f6f6c0201a26e33c2c09195a264309393a161a3696e"
        "740393a162a4626f6f6cc393a163a6737472696e67a1789192a66d656d6f7279509193a16ba176aa4e6f5363"
        "686564756c65c363bf0e15",
    ),
    "claim": (
        VOLUME_CLAIM,
        specs.encode_object,
        lambda data: specs.decode_object("volumeclaim/ns/c", data),
        "9d03a26e73a163a17505c091ad5265616457726974654f6e6365aa46696c6573797374656da09194a47a6f6e"
        "65a2496e92a161a162c2a0c3a06e5163b5",
    ),
    "slots": (
        Slots().names,
        lambda names: specs.encode_slots(Slots(names)),
        lambda data: specs.decode_slots(data).names,
        "920393a3637075a66d656d6f7279a4706f64732ab94da7",
    ),
    "numbers": (
        (9, 4, 7),
        lambda value: specs.encode_numbers(*value),
        specs.decode_numbers,
        "94030904078ef4efce",
    ),
    "aside": (
        quarantine.Quarantine("full", 1.5, 9.0, 2),
        quarantine.encode_quarantine,
        quarantine.decode_quarantine,
        "94a466756c6ccb3ff8000000000000cb4022000000000000025a4ac415",
    ),
    "reserved": (
        7,
        reservation.encode_reserved,
        reservation.decode_reserved,
        "910799fff379",
    ),
    "usage": (
        usage.UsageBucket(
            1767571200, 1767571260, 2, (16000, 4096, 8000), {"red": (9000, 512, 4000)}
        ),
        usage.encode_usage,
        usage.decode_usage,
        "95ce695aff00ce695aff3c0293cd3e80cd1000cd1f4081a372656493cd2328cd0200cd0fa0a969f162",
    ),
    "policy": (
        {"actions": "allocate"},
        specs.encode_policy,
        specs.decode_policy,
        "9203b77b22616374696f6e73223a2022616c6c6f63617465227d0cfdd7ee",
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_stored_records_are_read_and_written_to_the_same_bytes(name: str) -> None:
    value, encode, decode, written = RECORDS[name]
    data = bytes.fromhex(written)
    assert decode(data) == value
    assert encode(value) == data


# --- objects that placement reads -----------------------------------------------------------------


def test_every_kind_of_object_has_its_record() -> None:
    assert {type(value) for _, value in WORLD.values()} == set(specs.OBJECT_KEYS)
    assert json.loads(FILE.read_text()).keys() == WORLD.keys()


@pytest.mark.parametrize("name", WORLD)
def test_an_object_is_stored_as_ledgers_have_it(name: str) -> None:
    """Where this fails, ledgers that are there cannot be read: it is another schema, which has to
    be taken up."""
    data, (_, value) = bytes.fromhex(json.loads(FILE.read_text())[name]), WORLD[name]
    assert specs.decode_object(specs.object_key(value), data) == value
    assert specs.encode_object(value) == data
