"""predicates: which nodes a class may run on, against a plain reading of the rules per node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.rules import NodeColumns
from shard_worker.kube_scheduler.filters.node_checks import (
    AFFINITY,
    CORDON,
    SELECTOR,
    TAINT,
    UNSCHEDULABLE,
    matcher,
    tolerated,
)
from shared.model.constraints import Requirement, Taint, Toleration
from shared.model.model import Node, TaskClass
from shared.policy.model import PluginOption, Policy
from tests.shard_worker.dialects.volcano.plugins.table import Table, node, task


def checks(
    cls: TaskClass, nodes: list[Node | None], **arguments: object
) -> list[tuple[str, list[bool]]]:
    option = PluginOption("predicates", arguments=dict(arguments))
    session = open_session(Policy(("allocate",), ((option,),)))
    view: NodeColumns = Table(nodes)
    return [(reason, mask.tolist()) for reason, mask in session.predicates(cls, view)]


def needs(key: str, operator: str, *values: str, field: bool = False) -> Requirement:
    return Requirement(key=key, operator=operator, values=values, field=field)


class TestCordon:
    def test_a_cordoned_node_fails(self) -> None:
        nodes: list[Node | None] = [node(0), node(1, unschedulable=True)]
        assert checks(task(cpu=1), nodes) == [(UNSCHEDULABLE, [True, False])]

    def test_tolerating_its_taint_is_tolerating_the_cordon(self) -> None:
        nodes: list[Node | None] = [node(0, unschedulable=True)]
        bears = Toleration(key=CORDON.key, operator="Exists", value="", effect="NoSchedule")
        other = Toleration(key=CORDON.key, operator="Exists", value="", effect="NoExecute")
        assert checks(task(cpu=1, tolerations=(bears,)), nodes) == []
        assert checks(task(cpu=1, tolerations=(other,)), nodes) == [(UNSCHEDULABLE, [False])]


class TestSelector:
    def test_every_pair_must_match(self) -> None:
        nodes: list[Node | None] = [
            node(0, labels={"zone": "a", "disk": "ssd"}),
            node(1, labels={"zone": "a"}),
            node(2, labels={"zone": "b", "disk": "ssd"}),
            None,
        ]
        cls = task(cpu=1, selector=(("disk", "ssd"), ("zone", "a")))
        assert checks(cls, nodes) == [(SELECTOR, [True, False, False, False])]


class TestAffinity:
    NODES: tuple[Node | None, ...] = (
        node(0, labels={"zone": "a", "size": "4"}),
        node(1, labels={"zone": "b", "size": "10"}),
        node(2, labels={"size": "big"}),
    )

    @pytest.mark.parametrize(
        ("requirement", "expected"),
        [
            (needs("zone", "In", "a", "c"), [True, False, False]),
            (needs("zone", "NotIn", "a"), [False, True, True]),
            (needs("zone", "Exists"), [True, True, False]),
            (needs("zone", "DoesNotExist"), [False, False, True]),
            (needs("size", "Gt", "4"), [False, True, False]),
            (needs("size", "Lt", "10"), [True, False, False]),
            (needs("size", "Gt", "x"), [False, False, False]),
            (needs("absent", "Lt", "9"), [False, False, False]),
            (needs("metadata.name", "In", "n1", field=True), [False, True, False]),
            (needs("metadata.name", "NotIn", "n1", field=True), [True, False, True]),
        ],
    )
    def test_operators(self, requirement: Requirement, expected: list[bool]) -> None:
        cls = task(cpu=1, affinity=((requirement,),))
        assert checks(cls, list(self.NODES)) == [(AFFINITY, expected)]

    def test_terms_are_alternatives_and_requirements_hold_together(self) -> None:
        first = (needs("zone", "In", "a"), needs("size", "In", "10"))
        second = (needs("zone", "DoesNotExist"),)
        cls = task(cpu=1, affinity=(first, second))
        assert checks(cls, list(self.NODES)) == [(AFFINITY, [False, False, True])]

    def test_no_terms_and_an_empty_term_match_nothing(self) -> None:
        for affinity in ((), ((),)):
            cls = task(cpu=1, affinity=affinity)
            assert checks(cls, list(self.NODES)) == [(AFFINITY, [False, False, False])]

    def test_a_gone_node_has_no_name(self) -> None:
        cls = task(cpu=1, affinity=((needs("metadata.name", "NotIn", "n1", field=True),),))
        assert checks(cls, [None, node(1), node(2)]) == [(AFFINITY, [False, False, True])]

    def test_the_switch_covers_selector_and_affinity(self) -> None:
        cls = task(cpu=1, selector=(("zone", "a"),), affinity=())
        arguments = {"predicate.NodeAffinityEnable": False}
        assert checks(cls, list(self.NODES), **arguments) == []

    def test_an_unknown_operator_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="'Near'"):
            matcher(needs("zone", "Near"))

    @given(st.integers(-99, 99), st.integers(-99, 99))
    def test_numbers_compare_as_numbers(self, value: int, bound: int) -> None:
        assert matcher(needs("k", "Gt", str(bound)))(str(value)) is (value > bound)
        assert matcher(needs("k", "Lt", str(bound)))(str(value)) is (value < bound)

    @pytest.mark.parametrize("text", ["", "+", "1.0", " 1", "1_0", "٣"])
    def test_a_non_numeric_label_never_matches_gt(self, text: str) -> None:
        assert not matcher(needs("k", "Gt", "-5"))(text)


KEYS, EFFECTS = ("a", "b"), ("NoSchedule", "NoExecute", "PreferNoSchedule")
taint_sets = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(KEYS),
        value=st.sampled_from(("", "x")),
        effect=st.sampled_from(EFFECTS),
    ),
    max_size=3,
).map(tuple)
toleration_sets = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(("Equal", "Exists")),
        value=st.sampled_from(("", "x")),
        effect=st.sampled_from(("", *EFFECTS)),
    ),
    max_size=3,
).map(tuple)


class TestTaints:
    TAINT = Taint("gpu", "yes", "NoSchedule")

    @pytest.mark.parametrize(
        ("toleration", "expected"),
        [
            (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
            (Toleration("gpu", "Equal", "yes", ""), True),
            (Toleration("gpu", "Equal", "no", "NoSchedule"), False),
            (Toleration("gpu", "Exists", "", "NoSchedule"), True),
            (Toleration("", "Exists", "", ""), True),
            (Toleration("gpu", "Equal", "yes", "NoExecute"), False),
            (Toleration("cpu", "Equal", "yes", "NoSchedule"), False),
        ],
    )
    def test_tolerations(self, toleration: Toleration, expected: bool) -> None:
        assert tolerated(self.TAINT, [toleration]) is expected

    def test_only_taints_that_repel_are_looked_at(self) -> None:
        nodes: list[Node | None] = [
            node(0, taints=(Taint("a", "", "PreferNoSchedule"),)),
            node(1, taints=(Taint("a", "", "NoExecute"),)),
            node(2, taints=(self.TAINT,)),
            node(3),
        ]
        assert checks(task(cpu=1), nodes) == [(TAINT, [True, False, False, True])]
        assert checks(task(cpu=1), nodes, **{"predicate.TaintTolerationEnable": False}) == []

    def test_a_check_that_nobody_fails_is_left_out(self) -> None:
        assert checks(task(cpu=1), [node(0), node(1)]) == []

    @given(st.lists(taint_sets, min_size=1, max_size=8), toleration_sets)
    def test_as_a_plain_loop_would_say(
        self, sets: list[tuple[Taint, ...]], tolerations: tuple[Toleration, ...]
    ) -> None:
        nodes: list[Node | None] = [node(i, taints=taints) for i, taints in enumerate(sets)]
        expected = [
            all(t.effect == "PreferNoSchedule" or tolerated(t, tolerations) for t in taints)
            for taints in sets
        ]
        cls = task(cpu=1, tolerations=tolerations)
        result = dict(checks(cls, nodes)).get(TAINT, [True] * len(nodes))
        assert result == expected
        assert np.all(expected) == (TAINT not in dict(checks(cls, nodes)))
