"""Hyper nodes as a tree: members, rows, ancestors, and what makes it unusable."""

from __future__ import annotations

import numpy as np
import pytest

from shard_worker.view.hyper_tree import GONE, NOWHERE, TOP, HyperTree, build_tree
from shared.model.constraints import Requirement
from shared.model.model import Node
from shared.model.topology import HyperNode, Member, Topology


def nodes(*names: str) -> list[Node | None]:
    return [
        None if not name else Node(row, name, ((0, 1000),), {"zone": name[0]})
        for row, name in enumerate(names)
    ]


def tree() -> HyperTree:
    """Racks a (2 nodes), b (2) in row x; rack c (1) alone; one node in no rack; one row empty."""
    return build_tree(
        [
            HyperNode.of("x", 2, (), ("a", "b")),
            HyperNode.of("a", 1, ("a0", "a1")),
            HyperNode.of("b", 1, ("b0", "b1")),
            HyperNode.of("c", 1, ("c0",)),
        ],
        nodes("a0", "b0", "a1", "c0", "", "b1", "lone"),
    )


def test_rows_tiers_and_the_root() -> None:
    queue_tree = tree()
    rows = {name: domain.rows.tolist() for name, domain in queue_tree.domains.items()}
    assert rows == {
        TOP: [0, 1, 2, 3, 5, 6],
        "x": [0, 1, 2, 5],
        "a": [0, 2],
        "b": [1, 5],
        "c": [3],
    }
    assert queue_tree.tiers == (1, 2, 3)
    assert queue_tree.root.tier == 3
    assert queue_tree.ready
    assert [queue_tree.leaf_of(row) for row in range(8)] == ["a", "b", "a", "c", "", "b", TOP, ""]
    assert queue_tree.leaf[[4, 6]].tolist() == [GONE, NOWHERE]


def test_sums_of_a_value_per_row() -> None:
    queue_tree = tree()
    sums = queue_tree.sums(np.array([1, 10, 100, 1000, 9, 10_000, 100_000], np.int64))
    assert {d.name: int(sums[d.index]) for d in queue_tree.listed} == {
        TOP: 111_111,
        "x": 10_111,
        "a": 101,
        "b": 10_010,
        "c": 1000,
    }


def test_the_lowest_domain_above_two() -> None:
    queue_tree = tree()
    assert queue_tree.lca("a", "b") == "x"
    assert queue_tree.lca("a", "a") == "a"
    assert queue_tree.lca("x", "b") == "x"
    assert queue_tree.lca("a", "c") == TOP
    assert queue_tree.lca("", "a") == "a"
    assert queue_tree.lca("a", "gone") == "a"
    assert queue_tree.lca("", "") == ""


def test_the_widest_domain_that_is_allowed() -> None:
    queue_tree = tree()
    assert [getattr(queue_tree.widest("a", tier), "name", None) for tier in (0, 1, 2, 3)] == [
        None,
        "a",
        "x",
        TOP,
    ]


def test_members_by_pattern_and_by_label() -> None:
    in_b = (Requirement("zone", "In", ("b",)),)
    queue_tree = build_tree(
        [
            HyperNode("a", 1, (Member(False, "regex", "^a"),)),
            HyperNode("b", 1, (Member(False, "label", selector=in_b),)),
            HyperNode("x", 2, (Member(True, "regex", "^[ab]$"),)),
        ],
        nodes("a0", "b0", "a1", "c0"),
    )
    assert queue_tree.domains["a"].rows.tolist() == [0, 2]
    assert queue_tree.domains["b"].rows.tolist() == [1]
    assert [child.name for child in queue_tree.domains["x"].children] == ["a", "b"]


def test_absent_nodes_and_hyper_nodes_are_not_members() -> None:
    queue_tree = build_tree(
        [HyperNode.of("a", 1, ("a0", "later")), HyperNode.of("x", 2, (), ("b",))], nodes("a0")
    )
    assert queue_tree.ready
    assert queue_tree.domains["a"].rows.tolist() == [0]
    assert queue_tree.domains["x"].rows.tolist() == []


@pytest.mark.parametrize(
    ("hyper_nodes", "problem"),
    [
        pytest.param(
            [HyperNode.of("x", 2, (), ("y",)), HyperNode.of("y", 2, (), ("x",))],
            "hyper node y is a member of itself by way of x",
            id="a cycle",
        ),
        pytest.param(
            [
                HyperNode.of("x", 2, (), ("a",)),
                HyperNode.of("y", 2, (), ("a",)),
                HyperNode.of("a", 1, ("n",)),
            ],
            "hyper node a is a member of both x and y; take it out of one of them",
            id="two parents",
        ),
        pytest.param(
            [HyperNode("a", 1, (Member(False, "regex", "("),))],
            "hyper node a: '(' is no regular expression "
            "(missing ), unterminated subpattern at position 0)",
            id="no pattern",
        ),
    ],
)
def test_an_invalid_hyper_node_tree_is_not_ready_and_names_the_problem(
    hyper_nodes: list[HyperNode], problem: str
) -> None:
    queue_tree = build_tree(hyper_nodes, nodes("n"))
    assert not queue_tree.ready
    assert queue_tree.problem == problem
    assert queue_tree.root.rows.tolist() == [0]


def test_highest_tier_allowed_by_a_topology() -> None:
    queue_tree = build_tree(
        [HyperNode("a", 1, (Member(False, "exact", "a0"),), tier_name="rack")], nodes("a0")
    )
    assert queue_tree.highest(None) is None
    assert queue_tree.highest(Topology(hard=False, highest_tier=1)) == 2
    assert queue_tree.highest(Topology(hard=True, highest_tier=1)) == 1
    assert queue_tree.highest(Topology(hard=True, highest_tier_name="rack")) == 1
    assert queue_tree.highest(Topology(hard=True, highest_tier_name="row")) is None
    assert queue_tree.highest(Topology(hard=True)) is None


def test_without_hyper_nodes_there_is_only_the_root() -> None:
    queue_tree = build_tree((), nodes("a", "b"))
    assert (queue_tree.root.tier, queue_tree.tiers, queue_tree.listed) == (
        1,
        (1,),
        [queue_tree.root],
    )


def test_as_many_tiers_as_you_like() -> None:
    """No recursion: objects of users must not be able to end a worker."""
    chain = [HyperNode.of(f"h{i}", i + 1, (), (f"h{i - 1}",)) for i in range(1, 3000)]
    queue_tree = build_tree([HyperNode.of("h0", 1, ("n",)), *chain], nodes("n"))
    assert queue_tree.ready
    assert queue_tree.domains["h2999"].rows.tolist() == [0]
    assert queue_tree.leaf_of(0) == "h0"
    assert queue_tree.lca("h0", "h2999") == "h2999"
