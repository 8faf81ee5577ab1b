"""Scores by preferred nodes and by images, by hand; and that a live view's changes are noticed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.rules import Scorer
from shard_worker.harness import Cluster
from shard_worker.kube_scheduler.scores.images import FULL, LEAST, MIB, MOST, ImageLocality
from shard_worker.kube_scheduler.scores.node_affinity import PreferredNodes
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.view.columns import USED
from shard_worker.view.mode import Mode
from shared.ledger.entries.intake_batch import PutNode
from shared.ledger.entries.log import IntakeEntry
from shared.messages.messages import Epoch, Rows
from shared.model.constraints import Constraints, Requirement
from shared.model.model import Node, TaskClass
from shared.records.specs import encode_node
from tests.examples import examples
from tests.shard_worker.dialects.volcano.plugins.table import Table, node, task

HOST = "kubernetes.io/hostname"


def prefers(*wishes: tuple[int, Requirement]) -> TaskClass:
    preferred = tuple((weight, (requirement,)) for weight, requirement in wishes)
    return task(cpu=1, constraints=Constraints(preferred_nodes=preferred))


def zone(*values: str) -> Requirement:
    return Requirement("zone", "In", values)


def with_images(row: int, **sizes: int) -> Node:
    """Sizes in MiB."""
    images = tuple((name, size * MIB) for name, size in sizes.items())
    node_item = node(row)
    return Node(row, node_item.name, node_item.allocatable, images=images)


def runs(*images: str) -> TaskClass:
    return task(cpu=1, constraints=Constraints(images=images))


def scored(scorer: Scorer, cls: TaskClass, nodes: Sequence[Node | None]) -> list[float]:
    view = Table(nodes)
    result: list[float] = scorer.rows(cls, view, slice(None)).tolist()
    assert result == [scorer.row(cls, view, row) for row in range(len(nodes))]
    assert scorer.rows(cls, view, np.arange(len(nodes))[::-1]).tolist() == result[::-1]
    return result


class TestPreferredNodes:
    NODES = (node(0, labels={"zone": "a"}), node(1, labels={"zone": "b"}), node(2), None)

    def test_the_weights_of_matching_terms_are_added(self) -> None:
        cls = prefers((10, zone("a")), (5, zone("a", "b")))
        assert scored(PreferredNodes(weight=2), cls, self.NODES) == [30, 10, 0, 0]

    def test_nothing_preferred_and_an_empty_preference(self) -> None:
        scorer = PreferredNodes(weight=1)
        assert scored(scorer, task(cpu=1), self.NODES) == [0, 0, 0, 0]
        empty = task(cpu=1, constraints=Constraints(preferred_nodes=((7, ()),)))
        assert scored(scorer, empty, self.NODES) == [0, 0, 0, 0]

    def test_nodes_that_look_alike_score_alike_unless_names_count(self) -> None:
        scorer, view = PreferredNodes(weight=1), Table(self.NODES)
        assert scorer.by_look(prefers((1, zone("a"))), view)
        assert not scorer.by_look(prefers((1, Requirement(HOST, "In", ("x",)))), view)
        by_field = Requirement("metadata.name", "In", ("n1",), field=True)
        assert not scorer.by_look(prefers((1, by_field)), view)
        assert scored(scorer, prefers((4, by_field)), self.NODES) == [0, 4, 0, 0]


class TestImages:
    def test_size_times_share_between_the_bounds(self) -> None:
        """500 MiB on one node of two count 250: (250 - 23) of (1000 - 23)."""
        nodes = (with_images(0, web=500), with_images(1, db=10))
        scorer = ImageLocality(weight=1)
        assert scored(scorer, runs("web"), nodes) == [(250 - 23) * 100 // (1000 - 23), 0]

    def test_containers_add_up_and_raise_the_bound(self) -> None:
        nodes = (with_images(0, web=900, db=900), with_images(1, web=900, db=900), None)
        scorer = ImageLocality(weight=3)
        expected = 3 * ((1800 - 23) * 100 // (2000 - 23))
        assert scored(scorer, runs("web", "db"), nodes) == [expected, expected, 0]
        assert scored(scorer, runs("web", "web"), nodes)[0] == expected
        assert scored(scorer, runs("db"), nodes)[0] == 3 * ((900 - 23) * 100 // (1000 - 23))

    def test_few_bytes_count_nothing_and_many_no_more_than_all(self) -> None:
        nodes = (with_images(0, web=20, db=5000),)
        scorer = ImageLocality(weight=1)
        assert scored(scorer, runs("web"), nodes) == [0]
        assert scored(scorer, runs("db"), nodes) == [100]

    def test_looks_tell_no_images(self) -> None:
        scorer = ImageLocality(weight=1)
        assert scorer.by_look(runs("web"), Table([node(0)]))
        assert not scorer.by_look(runs("web"), Table([with_images(0, web=1)]))
        assert scorer.by_look(task(cpu=1), Table([with_images(0, web=1)]))

    @settings(max_examples=examples(50), deadline=None)
    @given(
        st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 3000)), max_size=5),
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3),
    )
    def test_as_the_rule_says(self, sizes: list[dict[str, int]], images: list[str]) -> None:
        nodes = [with_images(row, **each) for row, each in enumerate(sizes)]
        expected = []
        for each in sizes:
            total = 0
            for name in images:
                share = sum(name in other for other in sizes) / len(sizes)
                total += int(each.get(name, 0) * MIB * share)
            most = MOST * len(images)
            inside = min(max(total, LEAST), most)
            expected.append(float((inside - LEAST) * FULL // (most - LEAST)))
        assert scored(ImageLocality(weight=1), runs(*images), nodes) == expected


def test_scores_follow_later_labels_and_images_of_a_node() -> None:
    cluster = Cluster("nodeorder")
    for name in ("n0", "n1"):
        cluster.node(name)
    cls = prefers((5, zone("a")))
    cls = TaskClass(
        cls.requests,
        constraints=Constraints(
            preferred_nodes=cls.constraints.preferred_nodes if cls.constraints else (),
            images=("web:1",),
        ),
    )
    session = cluster.open()
    view = session.world.view
    before = session.score(cls, view, slice(None)).tolist()
    stored_node = view.nodes[1]
    assert stored_node is not None and before[0] == before[1]
    node = Node(
        1, "n1", stored_node.allocatable, {"zone": "a"}, spec=2, images=(("web:1", 900 * MIB),)
    )
    put = PutNode(1, list(node.allocatable), 2, encode_node(node))
    view.apply([IntakeEntry("2-0", "intake", Epoch(1, "test"), 2, [put], Rows([], []))])
    after = session.score(cls, view, slice(None)).tolist()
    assert after[0] == before[0]
    assert after[1] == before[1] + 5 * 2 + (450 - 23) * 100 // (1000 - 23)
    assert [session.score_row(cls, view, row) for row in (0, 1)] == after


def test_the_fast_path_tells_nodes_apart_where_names_count() -> None:
    cluster = Cluster("nodeorder")
    for i in range(4):
        cluster.node(f"n{i}", cpu=8)
    cls = prefers((50, Requirement(HOST, "In", ("n2",))))
    cluster.job("new", rules={"constraints": cls.constraints})
    session = cluster.open()
    view, task = session.world.view, next(session.world.tasks())
    compiled = CompiledClasses(view=view, session=session, mode=Mode.NONE, seed=0)
    compiled.get(task.cid)
    for row in range(4):
        view.shift(USED, task.cls, row, 1)
    again = compiled.get(task.cid).own
    fresh = CompiledClasses(view=view, session=session, mode=Mode.NONE, seed=0).get(task.cid).own
    assert [again.key(row) for row in range(4)] == [fresh.key(row) for row in range(4)]
    assert again.key(2) > max(again.key(row) for row in (0, 1, 3)) + 50
