"""A task that asks for nothing but a place among the pods evicts for it, in each form."""

from __future__ import annotations

import pytest

from tests.builders.objects import priority_class
from tests.laboratory.replay.build import FORMS, Json, decided, group, node, pod, policy

UNDER = policy(
    "enqueue, allocate, preempt, backfill", "priority", "gang", "predicates", "proportion"
)


def bare(name: str, *, of: str, on: str = "") -> Json:
    """A pod without requests."""
    item = pod(name, group=of, on=on)
    item["spec"]["containers"] = [{"name": "c"}]
    item["spec"]["priorityClassName"] = of
    return item


def cluster(places: int) -> list[Json]:
    """A node with as many places as it has pods, or more."""
    full = node("n")
    full["status"]["allocatable"]["pods"] = str(places)
    low = group("low", priorityClassName="low", phase="Running")
    items = [full, priority_class("low", 10), priority_class("high", 100), low]
    return [*items, *(bare(f"low-{i}", of="low", on="n") for i in range(3))]


@pytest.mark.parametrize("form", FORMS)
def test_a_pod_of_lower_priority_makes_way(form: str) -> None:
    items = [*cluster(3), group("high", priorityClassName="high"), bare("high-0", of="high")]
    assert len(decided(form, *items, under=UNDER).evicted) == 1


@pytest.mark.parametrize("form", FORMS)
def test_nobody_makes_way_where_there_is_a_place(form: str) -> None:
    items = [*cluster(4), group("high", priorityClassName="high"), bare("high-0", of="high")]
    result = decided(form, *items, under=UNDER)
    assert result.evicted == [] and "ns/high-0" in result.binds


@pytest.mark.parametrize("form", FORMS)
def test_nobody_makes_way_for_an_equal(form: str) -> None:
    items = [*cluster(3), group("low2", priorityClassName="low"), bare("x", of="low2")]
    assert decided(form, *items, under=UNDER).evicted == []


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_that_has_its_minimum_evicts_nobody_for_more(form: str) -> None:
    most = group("high", priorityClassName="high", phase="Running")
    runs, waits = bare("high-0", of="high", on="n"), bare("high-1", of="high")
    assert decided(form, *cluster(4), most, runs, waits, under=UNDER).evicted == []
