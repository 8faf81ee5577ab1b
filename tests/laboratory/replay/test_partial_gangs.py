"""A task that finds no node does not end its gang while the minimum can still be met: the same in
one session, with one shard and with three."""

from __future__ import annotations

import pytest

from tests.builders.objects import queue
from tests.laboratory.replay.build import FORMS, Json, decided, group, node, pod, policy

PLUGINS = ("priority", "gang", "predicates", "proportion", "nodeorder")
UNDER = policy("enqueue, allocate, backfill", *PLUGINS)
LIMITED = policy("enqueue, allocate, backfill", "priority", "gang", "predicates", "capacity")


def member(name: str, *, role: str = "", memory: str = "", cpu: float = 1) -> Json:
    item = pod(name, group="g", cpu=cpu)
    if role:
        item["metadata"]["annotations"]["volcano.sh/task-spec"] = role
    if memory:
        item["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return item


def members(role: str, count: int, cpu: float = 1) -> list[Json]:
    return [member(f"{role}-{i}", role=role, cpu=cpu) for i in range(count)]


def bound(form: str, *items: Json, under: Json = UNDER) -> set[str]:
    result = decided(form, *items, under=under)
    return {name.removeprefix("ns/") for name in result.binds}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("roles", [("", ""), ("master", "worker")])
def test_the_small_member_starts_where_the_large_one_fits_nowhere(
    roles: tuple[str, str], form: str
) -> None:
    large, small = member("a", role=roles[0], cpu=6), member("b", role=roles[1])
    assert bound(form, node("n"), group("g", minimum=1), large, small) == {"b"}


@pytest.mark.parametrize("form", FORMS)
def test_the_large_one_starts_where_it_fits(form: str) -> None:
    large, small = member("a", role="master", cpu=4), member("b", role="worker")
    assert bound(form, node("n"), group("g", minimum=1), large, small) == {"a"}


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_starts_with_those_that_fit(form: str) -> None:
    items = [*members("master", 1, cpu=6), *members("worker", 3)]
    assert bound(form, node("n"), group("g", minimum=3), *items) == {
        "worker-0",
        "worker-1",
        "worker-2",
    }
    assert bound(form, node("n"), group("g", minimum=4), *items) == set()


@pytest.mark.parametrize("form", FORMS)
def test_members_are_not_compared_where_none_is_the_smaller(form: str) -> None:
    wide = member("a", role="wide", cpu=6, memory="1Gi")
    deep = member("b", role="deep", cpu=1, memory="100Gi")
    other = member("c", role="other", cpu=3, memory="60Gi")
    assert bound(form, node("n"), group("g", minimum=1), wide, deep, other) == {"c"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cpu", [2, 3])
def test_minima_of_roles_come_before_surplus(cpu: int, form: str) -> None:
    minima = {"worker": 1, "launcher": 1}
    items = [*members("worker", 4), *members("launcher", 1)]
    started = bound(form, node("n", cpu=cpu), group("g", minimum=2, minTaskMember=minima), *items)
    assert "launcher-0" in started and len(started) == cpu


@pytest.mark.parametrize("form", FORMS)
def test_a_role_short_of_its_minimum_keeps_the_gang_from_starting(form: str) -> None:
    minima = {"worker": 1, "launcher": 1}
    items = [*members("worker", 4), *members("launcher", 1, cpu=6)]
    spec = group("g", minimum=2, minTaskMember=minima)
    assert bound(form, node("n"), spec, *items) == set()


@pytest.mark.parametrize("form", FORMS)
def test_a_member_above_the_queue_capability_is_skipped(form: str) -> None:
    limited = queue("default", capability={"cpu": "3", "memory": "64Gi"})
    items = [limited, *members("master", 1, cpu=6), *members("worker", 3)]
    started = bound(form, node("n", cpu=32), group("g", minimum=2), *items, under=LIMITED)
    assert started == {"worker-0", "worker-1", "worker-2"}


@pytest.mark.parametrize("form", FORMS)
def test_minima_of_roles_fit_a_queue_that_has_no_room_for_all(form: str) -> None:
    limited = queue("default", capability={"cpu": "4", "memory": "64Gi"})
    minima = {"worker": 1, "launcher": 1}
    items = [limited, *members("worker", 4), *members("launcher", 1, cpu=2)]
    spec = group("g", minimum=2, minTaskMember=minima)
    started = bound(form, node("n", cpu=32), spec, *items, under=LIMITED)
    assert "launcher-0" in started and len(started) == 3
