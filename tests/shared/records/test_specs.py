"""Specifications survive the way to bytes and back; anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.codec.checked import Malformed
from shared.messages.messages import Group
from shared.model.constraints import Constraints, PodTerm, Requirement, Spread, Taint, Toleration
from shared.model.model import Job, Node, NodeGroupAffinity, Queue, Requests, Role, TaskClass
from shared.model.topology import HyperNode, Member, SubGroupPolicy, Topology
from shared.records.specs import (
    decode_class,
    decode_hyper_node,
    decode_node,
    decode_queue,
    encode_class,
    encode_hyper_node,
    encode_node,
    encode_queue,
)
from shared.records.specs_base import FORMAT
from shared.records.specs_jobs import decode_job, encode_job
from tests.security.sealed import pack_sealed

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


def test_a_job_with_every_rare_field_survives_encoding() -> None:
    """Everything at once that came with format 3."""
    topology = Topology(True, 1)
    in_a = (Requirement("a", "In", ("b",)),)
    role = Role(
        "w",
        4,
        0,
        2,
        names=("a", "b"),
        labels=(("x", "1"),),
        annotations=(("volcano.sh/preemptable", "true"),),
        gated=True,
        own_gate=True,
        created=(1.0, 2.5),
        uids=("u", ""),
        priority_class="high",
        start=3,
    )
    job = Job(
        jid=1,
        namespace="ns",
        name="j",
        kind="PodGroup",
        uid="u",
        queue="q",
        created=0.0,
        roles=(role, Role("m", 4, 2, 1, exit_code=3)),
        labels=(("l", "1"),),
        annotations=(("volcano.sh/x", "y"),),
        phase="Inqueue",
        topology=topology,
        sub_groups=(SubGroupPolicy("s", 2, 1, topology, in_a, ("k",)), SubGroupPolicy("t")),
        priority_class="high",
        preempts=False,
    )
    assert decode_job(encode_job(job)) == job
    cls = TaskClass(
        ((2, 1),),
        constraints=Constraints(
            (PodTerm("z", in_a, ("n",), anti=True, weight=3), PodTerm("z", None)),
            (Spread("z", 2, False, (), 3, False, True),),
            ((5, in_a),),
            ("v",),
            ("c",),
            ("t",),
            ("i:latest",),
            False,
        ),
    )
    assert decode_class(encode_class(cls)) == cls
    node = Node(0, "n", (), annotations=(("a", "b"),), images=(("i:latest", 5),))
    assert decode_node(encode_node(node)) == node
    groups = NodeGroupAffinity(("a",), ("b",), ("c",), ("d",))
    queue = Queue(
        0, "q", deserved_set=True, created=5.0, annotations=(("a", "b"),), affinity=groups
    )
    assert decode_queue(encode_queue(queue)) == queue
    members = (Member(True, "regex", "x"), Member(False, "label", "", in_a))
    hyper = HyperNode("h", 2, members, "rack")
    assert decode_hyper_node(encode_hyper_node(hyper)) == hyper


def test_the_format_before_is_read() -> None:
    """As a running cluster has it that is upgraded: what it had no field for is not said."""
    before = FORMAT - 1
    role = ["w", 4, 0, 2, 0, 1, ["a", "b"], None]
    ends = ["m", 4, 2, 1, 0, 1, [], 2.5, 3]
    job = [before, 9, "ns", "j", "Job", "u", "q", 1.5, 0, [[-1, 3, 0]], [role, ends], 2, False]
    assert decode_job(pack_sealed(b"job", [*job, [["w", 1]], None])) == Job(
        jid=9,
        namespace="ns",
        name="j",
        kind="Job",
        uid="u",
        queue="q",
        created=1.5,
        groups=(Group(-1, 3),),
        roles=(
            Role("w", 4, 0, 2, names=("a", "b")),
            Role("m", 4, 2, 1, duration=2.5, exit_code=3),
        ),
        spec=2,
        role_minima=(("w", 1),),
    )
    node = [before, 0, "n", [[0, 5]], {}, [], False, 1]
    assert decode_node(pack_sealed(b"node", node)) == Node(0, "n", ((0, 5),), spec=1)
    cls = [before, [[2, 1]], [["a", "b"]], None, []]
    assert decode_class(pack_sealed(b"class", cls)) == TaskClass(((2, 1),), (("a", "b"),))
    queue = [before, 1, "q", 1, -1, 0, True, True, None, [[0, 1]], [], 4]
    assert decode_queue(pack_sealed(b"queue", queue)) == Queue(1, "q", deserved=((0, 1),), spec=4)
    hyper = [before, "h", 1, ["n"], ["c"]]
    assert decode_hyper_node(pack_sealed(b"hypernode", hyper)) == HyperNode.of(
        "h", 1, ("n",), ("c",)
    )
    for kind, value, read in (
        (b"node", node, decode_node),
        (b"class", cls, decode_class),
        (b"queue", queue, decode_queue),
        (b"hypernode", hyper, decode_hyper_node),
    ):
        for wrong in ([*value, None], value[:-1], [before - 1, *value[1:]]):
            with pytest.raises(Malformed):
                read(pack_sealed(kind, wrong))


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
