"""nodeorder and binpack: kube-scheduler's and Volcano's arithmetic, and that both forms agree."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.framework import session as session_module
from shard_worker.framework.extension_points import NODE_ORDER
from shard_worker.framework.session import Session
from shared.model.constraints import Taint, Toleration
from shared.model.model import Node, TaskClass
from shared.policy.dialect import parse_policy
from shared.policy.model import PluginOption, Policy
from shared.units.quantity import amount
from shared.units.slots import CPU, MEMORY
from tests.shard_worker.dialects.volcano.plugins.table import GI, GPU, MI, Table, node, task

QUIET = {
    "leastrequested.weight": 0,
    "mostrequested.weight": 0,
    "balancedresource.weight": 0,
    "tainttoleration.weight": 0,
}


def session_of(name: str, **arguments: object) -> Session:
    return open_session(Policy(("allocate",), ((PluginOption(name, arguments=arguments),),)))


def nodeorder(**weights: int) -> Session:
    return session_of("nodeorder", **(QUIET | {f"{k}.weight": v for k, v in weights.items()}))


def scores(
    session: Session,
    cls: TaskClass,
    nodes: list[Node | None],
    used: list[dict[int, int]] | None = None,
) -> list[float]:
    return list(session.score(cls, Table(nodes, used=used or []), slice(None)))


class TestLeastAndMost:
    NODES: tuple[Node | None, ...] = (
        node(0, cpu=2000, memory=4 * GI),
        node(1, cpu=4000, memory=8 * GI),
    )

    def test_least_by_hand(self) -> None:
        """n0: cpu 50, memory (4 Gi - 1 G) * 100 / 4 Gi = 76; n1: 75 and 88."""
        cls = task(cpu=1000, memory=10**9)
        assert scores(nodeorder(leastrequested=1), cls, list(self.NODES)) == [63, 81]

    def test_most_by_hand(self) -> None:
        """n0: cpu 50, memory 23; n1: 25 and 11."""
        cls = task(cpu=1000, memory=10**9)
        assert scores(nodeorder(mostrequested=1), cls, list(self.NODES)) == [36, 18]

    def test_used_amounts_lower_the_least_requested_score(self) -> None:
        used = [{CPU: 500, MEMORY: GI}, {}]
        cls = task(cpu=500, memory=GI)
        assert scores(nodeorder(leastrequested=2), cls, list(self.NODES), used) == [100, 174]

    def test_more_than_there_is(self) -> None:
        cls = task(cpu=3000, memory=GI)
        assert scores(nodeorder(leastrequested=1), cls, list(self.NODES[:1])) == [37]
        assert scores(nodeorder(mostrequested=1), cls, list(self.NODES[:1])) == [62]

    def test_missing_requests_score_with_a_small_default(self) -> None:
        nodes: list[Node | None] = [node(0, cpu=1000, memory=400 * MI)]
        assert scores(nodeorder(mostrequested=1), task(gpu=1000), nodes) == [30]

    def test_a_node_without_a_resource_is_judged_by_the_other(self) -> None:
        nodes: list[Node | None] = [node(0, cpu=2000, memory=0), None]
        assert scores(nodeorder(leastrequested=1), task(cpu=1000), nodes) == [50, 0]


class TestBalanced:
    def test_by_hand(self) -> None:
        """n0: parts 1/2 and 1/2; n1: 1/4 and 1/2, half of whose distance is 0.125."""
        nodes: list[Node | None] = [
            node(0, cpu=2000, memory=2 * GI),
            node(1, cpu=4000, memory=2 * GI),
        ]
        cls = task(cpu=1000, memory=GI)
        assert scores(nodeorder(balancedresource=10), cls, nodes) == [1000, 870]

    def test_gpus_count_where_they_are_asked_for(self) -> None:
        nodes: list[Node | None] = [node(0, cpu=2000, memory=2 * GI, gpu=4000)]
        assert scores(nodeorder(balancedresource=1), task(1000, GI), nodes) == [100]
        # parts 1/2, 1/2, 1/4: mean 5/12, deviation 0.1178
        assert scores(nodeorder(balancedresource=1), task(1000, GI, 1000), nodes) == [88]

    def test_a_task_that_asks_for_nothing_is_not_drawn_anywhere(self) -> None:
        assert scores(nodeorder(balancedresource=1), task(), [node(0)]) == [0]

    def test_one_resource_is_always_balanced(self) -> None:
        assert scores(nodeorder(balancedresource=1), task(cpu=9), [node(0, memory=0)]) == [100]


class TestSoftTaints:
    A, B = Taint("a", "", "PreferNoSchedule"), Taint("b", "", "PreferNoSchedule")

    def test_the_more_the_worse(self) -> None:
        nodes: list[Node | None] = [
            node(0),
            node(1, taints=(self.A,)),
            node(2, taints=(self.A, self.B, Taint("c", "", "NoSchedule"))),
        ]
        session = nodeorder(tainttoleration=3)
        assert scores(session, task(cpu=1), nodes) == [300, 150, 0]
        bears = Toleration("a", "Exists", "", "")
        assert scores(session, task(cpu=1, tolerations=(bears,)), nodes) == [300, 300, 0]

    def test_none_anywhere(self) -> None:
        assert scores(nodeorder(tainttoleration=1), task(cpu=1), [node(0)]) == [100]

    def test_a_set_that_comes_later_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session, table = nodeorder(tainttoleration=1), Table([node(0, taints=(self.A,))])
        column = table.taints()
        monkeypatch.setattr(table, "taints", lambda: column)
        assert session.score(task(cpu=1), table, slice(None)).tolist() == [0]
        table.nodes.append(node(1, taints=(self.A, self.B)))
        column.update([1], table.nodes)
        assert session.score(task(cpu=1), table, slice(0, 2)).tolist() == [50, 0]


class TestBinpack:
    def test_by_hand(self) -> None:
        """cpu 1500/2000, memory 1/4; weights 1 and 1."""
        session = session_of("binpack")
        cls = task(cpu=1000, memory=GI)
        nodes: list[Node | None] = [node(0, cpu=2000, memory=4 * GI)]
        assert scores(session, cls, nodes, [{CPU: 500}]) == [50.0]

    def test_weights(self) -> None:
        arguments = {"binpack.weight": 10, "binpack.cpu": 5, "binpack.memory": 1}
        session = session_of("binpack", **arguments)
        cls = task(cpu=1000, memory=GI)
        nodes: list[Node | None] = [node(0, cpu=2000, memory=4 * GI)]
        expected = float(1000 * (5 * Fraction(1, 2) + Fraction(1, 4)) / 6)
        assert scores(session, cls, nodes) == pytest.approx([expected])

    def test_only_listed_resources_count(self) -> None:
        cls = task(cpu=1000, gpu=1000)
        nodes: list[Node | None] = [node(0, cpu=4000, gpu=1000)]
        assert scores(session_of("binpack"), cls, nodes) == [25.0]
        listed = {"binpack.resources": "nvidia.com/gpu, x", "binpack.resources.nvidia.com/gpu": 3}
        assert scores(session_of("binpack", **listed), cls, nodes) == [pytest.approx(81.25)]

    def test_an_overflowing_resource_scores_zero(self) -> None:
        cls = task(cpu=1000, memory=GI)
        nodes: list[Node | None] = [node(0, cpu=900, memory=2 * GI), node(1, cpu=0, memory=GI)]
        assert scores(session_of("binpack"), cls, nodes) == [25.0, 50.0]

    def test_negative_weights_count_one(self) -> None:
        arguments = {"binpack.cpu": -5, "binpack.memory": 0}
        nodes: list[Node | None] = [node(0, cpu=2000, memory=2 * GI)]
        assert scores(session_of("binpack", **arguments), task(1000, GI), nodes) == [50.0]

    def test_weight_zero_is_no_scorer(self) -> None:
        assert not session_of("binpack", **{"binpack.weight": 0}).has(NODE_ORDER)

    def test_a_weight_of_an_unlisted_resource_is_reported(self) -> None:
        assert session_of("binpack", **{"binpack.resources.x": 1}).warnings == [
            "binpack: binpack.resources.x: has no effect until binpack.resources lists the resource"
        ]

    def test_a_task_that_asks_for_nothing(self) -> None:
        assert scores(session_of("binpack"), task(), [node(0)]) == [0.0]


soft = st.sampled_from([(), (TestSoftTaints.A,), (TestSoftTaints.A, TestSoftTaints.B)])
some_nodes = st.lists(
    st.tuples(
        st.none()
        | st.builds(
            node,
            row=st.just(0),
            cpu=st.sampled_from([0, 1, 4000, 2**52]) | st.integers(0, 128_000),
            memory=st.sampled_from([0, 2**52 + 1]) | st.integers(0, 2**40),
            gpu=st.sampled_from([0, 1000, 8000]),
            taints=soft,
        ),
        st.fixed_dictionaries(
            {
                CPU: st.integers(0, 150_000),
                MEMORY: st.integers(0, 2**41),
                GPU: st.integers(0, 9000),
            }
        ),
    ),
    min_size=1,
    max_size=9,
)
some_tasks = st.builds(
    task,
    cpu=st.integers(0, 64_000),
    memory=st.integers(0, 2**38) | st.just(2**52),
    gpu=st.sampled_from([0, 500, 1000]),
)
EVERYTHING = parse_policy(
    """
actions: allocate
tiers:
- plugins:
  - name: nodeorder
    arguments: {leastrequested.weight: 2, mostrequested.weight: 3, balancedresource.weight: 5}
  - name: binpack
    arguments:
      binpack.weight: 7
      binpack.cpu: 3
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 11
"""
)


class TestBothForms:
    @given(some_nodes, some_tasks)
    def test_one_row_scores_as_among_many(
        self, rows: list[tuple[Node | None, dict[int, int]]], cls: TaskClass
    ) -> None:
        session = open_session(EVERYTHING)
        table = Table([n for n, _ in rows], used=[used for _, used in rows])
        among_many = session.score(cls, table, slice(None)).tolist()
        alone = [session.score_row(cls, table, row) for row in range(table.size)]
        assert alone == among_many
        chosen = np.arange(table.size, dtype=np.intp)[::-1]
        assert session.score(cls, table, chosen).tolist() == among_many[::-1]
        for row in range(table.size):
            assert session.score(cls, table, chosen[row : row + 1]).tolist() == [
                among_many[chosen[row]]
            ]

    @given(some_nodes, some_tasks)
    def test_blocks_do_not_show(
        self, rows: list[tuple[Node | None, dict[int, int]]], cls: TaskClass
    ) -> None:
        session = open_session(EVERYTHING)
        table = Table([n for n, _ in rows], used=[used for _, used in rows])
        whole = session.score(cls, table, slice(None)).tolist()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session_module, "BLOCK", 2)
            assert session.score(cls, table, slice(None)).tolist() == whole
            assert session.score(cls, table, slice(1, None)).tolist() == whole[1:]

    @given(some_nodes, some_tasks)
    def test_scorers_stay_in_their_range(
        self, rows: list[tuple[Node | None, dict[int, int]]], cls: TaskClass
    ) -> None:
        table = Table([n for n, _ in rows], used=[used for _, used in rows])
        for name in ("leastrequested", "mostrequested", "balancedresource", "tainttoleration"):
            result = nodeorder(**{name: 1}).score(cls, table, slice(None))
            assert ((result >= 0) & (result <= 100)).all()
            assert (result == np.trunc(result)).all()

    def test_scores_follow_from_the_row_alone(self) -> None:
        assert open_session(EVERYTHING).scores_node_locally


# --- Volcano's own scenarios ------------------------------------------------------------------


@pytest.fixture(scope="module")
def volcano(shared_reference: Path) -> dict[str, Any]:
    """Volcano's scenarios of node order: the last part of the id -> scenario."""
    path = shared_reference / "conformance" / "volcano" / "nodeorder.json"
    if not path.exists():
        pytest.skip("Volcano's scenarios are not beside this checkout")
    return {s["id"].rpartition("::")[2]: s for s in json.loads(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(
    "name",
    [
        "leastAllocated strategy",
        "mostAllocated strategy",
        "balanced allocation prefers balanced node",
    ],
)
def test_the_expected_node_scores_best(volcano: dict[str, Any], name: str) -> None:
    scenario = volcano[name]
    session = open_session(parse_policy(scenario["policy"]))
    assert session.warnings == []
    offers = [
        (n["metadata"]["name"], n["status"]["allocatable"]) for n in scenario["cluster"]["nodes"]
    ]
    nodes: list[Node | None] = [
        node(
            row,
            cpu=amount("cpu", offer["cpu"], "cpu"),
            memory=amount("memory", offer["memory"], "memory"),
        )
        for row, (_, offer) in enumerate(offers)
    ]
    (pod,) = scenario["cluster"]["pods"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    cls = task(
        cpu=amount("cpu", requests["cpu"], "cpu"),
        memory=amount("memory", requests["memory"], "memory"),
    )
    result = scores(session, cls, nodes)
    (expected,) = scenario["expect"]["bindMap"].values()
    best = [offers[row][0] for row, score in enumerate(result) if score == max(result)]
    assert best == [expected]
