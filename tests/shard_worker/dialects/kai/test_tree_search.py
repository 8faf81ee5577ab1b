"""Trees of Kubernetes' own groups: which of their groups are placed, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.run import run_actions
from shard_worker.dialects.kai.rules.groups import is_whole
from shared.model.kai import KaiPodGroup, KaiSubGroup, KaiTopologyConstraint, label_topology
from tests.shard_worker.dialects.kai.clusters import KaiCluster, placed

Racks = tuple[tuple[str, int], ...]
"""(zone, free GPUs) of each rack, which is one node."""


@dataclass(frozen=True)
class Part:
    """A group: a PodGroup of ``minimum`` pods where it has no children."""

    name: str
    minimum: int
    key: str = ""
    """The node label of its constraint."""
    children: tuple[Part, ...] = ()
    surplus: int = 0


def constraint(part: Part) -> KaiTopologyConstraint | None:
    return KaiTopologyConstraint(label_topology(part.key), part.key) if part.key else None


def sub_groups(part: Part, parent: str = "") -> Iterator[KaiSubGroup]:
    for child in part.children:
        if child.children:
            least = {"min_sub_group": child.minimum}
        else:
            least = {"min_member": child.minimum}
        yield KaiSubGroup(child.name, parent, topology=constraint(child), **least)
        yield from sub_groups(child, child.name)


def leaves(part: Part) -> Iterator[Part]:
    if not part.children:
        yield part
    for child in part.children:
        yield from leaves(child)


def nodes_of(root: Part, racks: Racks) -> dict[str, list[int]]:
    """PodGroup -> the racks of its pods that were placed; checks that nothing is in part."""
    cluster = KaiCluster(actions="allocate")
    for number, (zone, free) in enumerate(racks):
        cluster.node(f"r{number}", gpus=free, labels={"zone": zone, "rack": f"r{number}"})
    group = KaiPodGroup(
        "default",
        f"CompositePodGroup/{root.name}",
        "team",
        uid=root.name,
        min_sub_group=root.minimum,
        sub_groups=tuple(sub_groups(root)),
        topology=constraint(root),
    )
    pods = {leaf.name: leaf.minimum + leaf.surplus for leaf in leaves(root)}
    cluster.tree(group, pods)
    session = cluster.open()
    run_actions(session)
    (job,) = session.kai_jobs.values()
    assert is_whole(job.root), "a group was placed in part"
    at: dict[str, list[int]] = {name: [] for name in pods}
    for name, (_, node) in placed(session).items():
        at[name.rpartition("-")[0]].append(int(node.removeprefix("r")))
    check_domains(root, racks, at)
    return at


def check_domains(part: Part, racks: Racks, at: dict[str, list[int]]) -> None:
    used = [rack for leaf in leaves(part) for rack in at[leaf.name]]
    domains = {rack if part.key == "rack" else racks[rack][0] for rack in used}
    assert not part.key or len(domains) <= 1, f"{part.name} is in {domains}"
    for child in part.children:
        check_domains(child, racks, at)


# --- the search over all placements ---------------------------------------------------------------

Demands = tuple[tuple[int, frozenset[int]], ...]
"""Pods and the racks that they may use, of each PodGroup that is placed."""


def demands(part: Part, racks: Racks, within: frozenset[int]) -> Iterator[Demands]:
    """Every way to choose groups and domains."""
    for rows in domains(part, racks, within):
        if not part.children:
            yield ((part.minimum, rows),)
            continue
        for chosen in combinations(part.children, part.minimum):
            for ways in product(*(list(demands(child, racks, rows)) for child in chosen)):
                yield tuple(demand for way in ways for demand in way)


def domains(part: Part, racks: Racks, within: frozenset[int]) -> list[frozenset[int]]:
    if not part.key:
        return [within]
    by_value: dict[object, set[int]] = {}
    for rack in within:
        by_value.setdefault(rack if part.key == "rack" else racks[rack][0], set()).add(rack)
    return [frozenset(rows) for rows in by_value.values()]


def has_room(demand: Demands, racks: Racks) -> bool:
    """By Hall's theorem: every set of groups finds as many places as it needs."""
    for number in range(1, len(demand) + 1):
        for some in combinations(demand, number):
            rows = frozenset[int]().union(*(rows for _, rows in some))
            if sum(count for count, _ in some) > sum(racks[row][1] for row in rows):
                return False
    return True


def can_be_placed(root: Part, racks: Racks) -> bool:
    every = frozenset(range(len(racks)))
    return any(has_room(demand, racks) for demand in demands(root, racks, every))


# --- examples -------------------------------------------------------------------------------------

TWO_RACKS: Racks = (("z", 8), ("z", 8))


def test_a_group_that_may_run_anywhere_leaves_a_rack_to_its_sibling() -> None:
    """The older one first, as kube-scheduler does, spreads over both racks."""
    root = Part("root", 2, children=(Part("a", 4), Part("b", 8, "rack")))
    at = nodes_of(root, TWO_RACKS)
    assert (len(at["a"]), len(set(at["b"]))) == (4, 1)


def test_a_group_tries_another_domain_where_its_sibling_needs_the_first() -> None:
    """Both fit the first rack, and one of them fits the second."""
    root = Part("root", 2, children=(Part("a", 2, "rack"), Part("b", 4, "rack")))
    at = nodes_of(root, (("z", 4), ("z", 2)))
    assert (set(at["a"]), set(at["b"])) == ({1}, {0})


@pytest.mark.parametrize("hopeless", ["a", "b", "c"])
def test_a_group_without_a_place_is_done_without(hopeless: str) -> None:
    parts = [Part(name, 20 if name == hopeless else 1) for name in "abc"]
    at = nodes_of(Part("root", 2, children=tuple(parts)), TWO_RACKS)
    assert {name for name, racks in at.items() if racks} == set("abc") - {hopeless}


def test_nothing_is_placed_where_the_minimum_of_groups_cannot_be() -> None:
    root = Part("root", 2, children=(Part("a", 1), Part("b", 20)))
    assert not any(nodes_of(root, TWO_RACKS).values())


def test_minima_come_before_the_surplus_of_any_group() -> None:
    root = Part("root", 2, children=(Part("a", 1, surplus=20), Part("b", 8)))
    at = nodes_of(root, TWO_RACKS)
    assert (len(at["a"]), len(at["b"])) == (8, 8)


def test_the_surplus_of_a_full_domain_holds_back_no_other_group() -> None:
    full, free = Part("a", 8, "rack", surplus=2), Part("b", 1, surplus=3)
    at = nodes_of(Part("root", 2, children=(full, free)), TWO_RACKS)
    assert (len(at["a"]), len(at["b"])) == (8, 4)


# --- any tree -------------------------------------------------------------------------------------

KEYS = st.sampled_from(["", "zone", "rack"])


@st.composite
def trees(draw: st.DrawFn) -> Part:
    number = iter(range(100))

    def part(level: int) -> Part:
        name, key = f"g{next(number)}", draw(KEYS)
        if level == 3 or (level and draw(st.booleans())):
            return Part(name, draw(st.integers(1, 3)), key)
        children = tuple(
            part(level + 1) for _ in range(draw(st.integers(1, 3 if not level else 2)))
        )
        return Part(name, draw(st.integers(1, len(children))), key, children)

    return part(0)


RACKS = st.lists(
    st.tuples(st.sampled_from(["y", "z"]), st.integers(1, 4)), min_size=1, max_size=4
).map(tuple)


@pytest.mark.all
@settings(max_examples=2000)
@given(root=trees(), racks=RACKS)
def test_a_tree_is_placed_whenever_there_is_a_placement(root: Part, racks: Racks) -> None:
    at = nodes_of(root, racks)
    assert any(at.values()) is can_be_placed(root, racks)


def test_a_group_is_placed_in_its_domain_before_the_next_one_chooses() -> None:
    """16 groups that need a zone each, of which four fit into one: had all chosen first, all would
    have chosen the same."""
    groups = tuple(
        Part(f"c{i}", 10, "zone", tuple(Part(f"l{i}-{j}", 2) for j in range(10))) for i in range(16)
    )
    racks = tuple((f"z{number % 4}", 8) for number in range(40))
    at = nodes_of(Part("root", 16, children=groups), racks)
    assert sum(map(len, at.values())) == 320


@pytest.mark.all
def test_as_many_groups_as_a_tree_may_have_are_placed() -> None:
    leaves = tuple(Part(f"l{i}", 1) for i in range(999))
    at = nodes_of(Part("root", 999, children=leaves), tuple(("z", 8) for _ in range(125)))
    assert sum(map(len, at.values())) == 999
