"""Specifications survive the way to bytes and back; anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.checked import Malformed, pack_sealed
from shared.messages import Group
from shared.model import Job, Node, Queue, Requests, Requirement, Role, Taint, TaskClass, Toleration
from shared.specs import (
    FORMAT,
    decode_class,
    decode_job,
    decode_node,
    decode_queue,
    encode_class,
    encode_job,
    encode_node,
    encode_queue,
)

amounts: st.SearchStrategy[Requests] = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 2**53 - 1)), max_size=4
).map(tuple)
texts = st.text(max_size=8)


@given(amounts, st.dictionaries(texts, texts, max_size=3), st.booleans())
def test_node(allocatable: Requests, labels: dict[str, str], unschedulable: bool) -> None:
    node = Node(
        row=7,
        name="n",
        allocatable=allocatable,
        labels=labels,
        taints=(Taint("k", "v", "NoSchedule"),),
        unschedulable=unschedulable,
        spec=3,
    )
    assert decode_node(encode_node(node)) == node


@given(amounts, st.none() | st.just(()) | st.just(((Requirement("a", "In", ("x", "y")),), ())))
def test_class(requests: Requests, affinity: tuple[tuple[Requirement, ...], ...] | None) -> None:
    cls = TaskClass(
        requests=requests,
        selector=(("zone", "a"),),
        affinity=affinity,
        tolerations=(Toleration("k", "Equal", "v", ""),),
    )
    back = decode_class(encode_class(cls))
    assert back == cls
    assert hash(back) == hash(cls)


@given(st.none() | amounts, amounts)
def test_queue(capability: Requests | None, deserved: Requests) -> None:
    queue = Queue(qid=2, name="q", capability=capability, deserved=deserved, open=False, spec=1)
    assert decode_queue(encode_queue(queue)) == queue


@given(st.none() | st.floats(0, 1e9), st.none() | amounts, st.booleans())
def test_job(duration: float | None, min_resources: Requests | None, dangling: bool) -> None:
    job = Job(
        jid=9,
        namespace="ns",
        name="j",
        kind="PodGroup",
        uid="u",
        queue="q",
        created=12.5,
        groups=(Group(-1, 3), Group(0, 2, 1)),
        roles=(Role("w", 4, 0, 2, group=1, names=("a", "b"), duration=duration),),
        min_resources=min_resources,
        dangling=dangling,
    )
    assert decode_job(encode_job(job)) == job


NODE: list[object] = [FORMAT, 0, "n", [[0, 5]], {}, [], False, 0, None]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, FORMAT + 1),
        (1, "0"),
        (1, True),
        (2, b"n"),
        (3, [[0]]),
        (3, [[0, 1.0]]),
        (3, None),
        (4, []),
        (4, {"a": 1}),
        (5, [["k", "v"]]),
        (6, 0),
        (7, None),
    ],
)
def test_a_value_of_another_type_is_refused(at: int, value: object) -> None:
    assert decode_node(pack_sealed(b"node", NODE)).name == "n"
    changed = [*NODE]
    changed[at] = value
    with pytest.raises(Malformed):
        decode_node(pack_sealed(b"node", changed))


@pytest.mark.parametrize("value", [NODE[:-1], [*NODE, 0], {}, 5, []])
def test_missing_or_extra_fields_are_refused(value: object) -> None:
    with pytest.raises(Malformed):
        decode_node(pack_sealed(b"node", value))


@pytest.mark.parametrize("data", [b"", b"\xc1", encode_class(TaskClass(requests=()))[:-1]])
def test_bytes_that_are_not_msgpack_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_class(data)
