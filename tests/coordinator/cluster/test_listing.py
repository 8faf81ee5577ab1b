"""Listings of the cluster in parts, single tasks, usage by others; over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cluster.protocol import BindAnswer, ClusterTimeout, Listed, Phase
from coordinator.cluster.simulated.calls import listed_columns, read_foreign, read_listed
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from shared.codec.checked import Malformed
from tests.coordinator.cluster.support import asking
from tests.coordinator.cluster.test_server import client, process

P = Phase


def rows_by_task(listing: Listed) -> dict[str, tuple[str, Phase]]:
    rows = zip(listing.tasks, listing.nodes, listing.phases, strict=True)
    return {task: (node, Phase(phase)) for task, node, phase in rows}


def test_a_listing_has_running_tasks_and_unacknowledged_ends() -> None:
    cluster = LocalCluster(grace=1.0)
    cluster.bind(asking({"1.0": "n0", "1.1": "n1", "2.0": "n2"}), 0.0)
    cluster.delete(["1.1", "2.0", "9.9"], 1.0)
    assert rows_by_task(cluster.listing("")) == {
        "1.0": ("n0", P.RUNNING),
        "1.1": ("n1", P.RELEASING),
        "2.0": ("n2", P.RELEASING),
    }
    cluster.advance(3.0)
    assert rows_by_task(cluster.listing(""))["1.1"] == ("n1", P.FAILED)
    last = cluster.reports(0).last
    cluster.reports(last)
    assert rows_by_task(cluster.listing("")) == {"1.0": ("n0", P.RUNNING)}
    assert rows_by_task(cluster.look(["1.0", "1.1", "9.9", "7.7"])) == {
        "1.0": ("n0", P.RUNNING),
        "1.1": ("", P.FAILED),
        "9.9": ("", P.UNKNOWN),
        "7.7": ("", P.UNKNOWN),
    }


def test_a_listing_comes_in_parts_that_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.cluster.simulated.cluster.LISTED_AT_ONCE", 2)
    cluster = LocalCluster()
    cluster.bind(asking({f"{jid}.0": "n0" for jid in range(5)}), 0.0)
    parts: list[Listed] = []
    token = ""
    while not parts or token:
        parts.append(cluster.listing(token))
        token = parts[-1].token
    assert [part.tasks for part in parts] == [["0.0", "1.0"], ["2.0", "3.0"], ["4.0"]]
    assert [part.highest for part in parts] == [4, -1, -1]
    with pytest.raises(ClusterTimeout, match="another listing"):
        cluster.listing("77:2")


def test_the_highest_number_is_told_of_all_that_ever_were() -> None:
    cluster = LocalCluster(grace=0.0)
    assert cluster.listing("").highest == -1
    cluster.bind(asking({"41.0": "n0"}), 0.0)
    cluster.delete(["41.0", "7.0"], 1.0)
    cluster.advance(2.0)
    assert cluster.listing("").highest == 41


def test_a_lost_task_is_gone_without_a_word_and_cannot_be_bound_again() -> None:
    cluster = LocalCluster(grace=5.0)
    cluster.bind(asking({"1.0": "n0", "1.1": "n0"}), 0.0)
    cluster.delete(["1.1"], 1.0)
    before = cluster.reports(0).last
    cluster.lose(["1.0", "1.1"], 2.0)
    cluster.advance(99.0)
    assert cluster.reports(0).last == before
    assert rows_by_task(cluster.listing("")) == {}
    assert cluster.bind(asking({"1.0": "n0"}), 99.0).answers == [BindAnswer.GONE]
    assert cluster.drain()[-2].kind == "lost"


def test_foreign_usage_is_listed_by_node() -> None:
    cluster = LocalCluster()
    cluster.occupy("n0", {"cpu": 500})
    assert cluster.foreign() == {"n0": {"cpu": 500}}
    cluster.occupy("n0", {})
    assert cluster.foreign() == {}


def test_a_broken_node_refuses_all_that_is_new_and_always_says_the_same() -> None:
    cluster = FaultyCluster(LocalCluster(), Faults(broken=0.5), 1)
    nodes = {f"{i}.0": f"n{i}" for i in range(40)}
    first = cluster.bind(asking(nodes), 0.0)
    again = cluster.bind(asking(nodes), 1.0)
    broken = [i for i, answer in enumerate(first.answers) if answer == BindAnswer.REFUSED]
    assert 5 < len(broken) < 35
    assert {first.reasons[i] for i in broken} == {"NodeBroken"}
    assert [i for i, answer in enumerate(again.answers) if answer == BindAnswer.REFUSED] == broken
    other = FaultyCluster(LocalCluster(), Faults(broken=0.5), 1)
    answers = [other.bind(asking({task: node}), 0.0).answers[0] for task, node in nodes.items()]
    assert answers == first.answers  # whatever the order and size of the questions


def test_questions_may_go_unanswered() -> None:
    cluster = FaultyCluster(LocalCluster(), Faults(silent_after=1.0), 1)
    for ask in (lambda: cluster.listing(""), lambda: cluster.look([]), cluster.foreign):
        with pytest.raises(ClusterTimeout):
            ask()


def test_answers_are_read_strictly() -> None:
    good = listed_columns(Listed(["1.0"], ["u"], ["n0"], [1], "1:1", 3))
    assert read_listed(good).token == "1:1"
    for wrong in (
        good[:-1],
        [*good, 0],
        [["1.0", "1.1"], *good[1:]],
        [*good[:3], [len(Phase)], *good[4:]],
        [*good[:4], 5, good[5]],
        [*good[:5], "3"],
    ):
        with pytest.raises(Malformed):
            read_listed(wrong)
    strange: list[object] = [[], {"n0": 5}, {"n0": {"cpu": -1}}, {1: {}}, {"n0": {"cpu": 0.5}}]
    for odd in strange:
        with pytest.raises(Malformed):
            read_foreign(odd)


async def test_over_the_socket(short_dir: Path) -> None:
    with process(short_dir):
        async with client(short_dir) as cluster:
            await cluster.bind(asking({"1.0": "n0", "1.1": "n1"}))
            assert rows_by_task(await cluster.listing("")) == {
                "1.0": ("n0", P.RUNNING),
                "1.1": ("n1", P.RUNNING),
            }
            assert rows_by_task(await cluster.look(["1.1", "5.5"])) == {
                "1.1": ("n1", P.RUNNING),
                "5.5": ("", P.UNKNOWN),
            }
            assert await cluster.foreign() == {}
