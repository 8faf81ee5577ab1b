"""Gangs whose members ask for different amounts, in each form."""

from __future__ import annotations

import pytest

from tests.laboratory.replay.build import FORMS, Json, decided, group, node, pod, policy

UNDER = policy("allocate", "priority", "gang", "predicates", "proportion", "binpack")


def members(of: str, *kinds: tuple[str, int, float], minimum: int, memory: str = "") -> list[Json]:
    """A PodGroup of several kinds of pods: (name, pods, CPUs). ``memory``: of the first kind."""
    pods = [pod(f"{of}-{name}-{i}", group=of, cpu=cpu) for name, n, cpu in kinds for i in range(n)]
    if memory:
        for item in pods[: kinds[0][1]]:
            item["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return [group(of, minimum=minimum), *pods]


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_starts_whose_members_fit_only_if_kinds_take_turns(form: str) -> None:
    """Packed side by side, the small ones leave no node for the second large one."""
    gang = members("g", ("small", 2, 1), ("large", 2, 2), minimum=4)
    result = decided(form, node("n0", cpu=3), node("n1", cpu=3), *gang, under=UNDER)
    assert len(result.binds) == 4


@pytest.mark.parametrize("form", FORMS)
def test_a_kind_that_fits_nowhere_keeps_no_elastic_member_of_another_waiting(form: str) -> None:
    kinds = ("large", 2, 3), ("small", 4, 1)
    first, second = (members(name, *kinds, minimum=1) for name in ("a", "b"))
    nodes = [node(f"n{i}", cpu=2) for i in range(4)]
    result = decided(form, *nodes, *first, *second, under=UNDER)
    assert set(result.binds) == {f"ns/{name}-small-{i}" for name in "ab" for i in range(4)}


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_is_tried_whose_members_are_small_in_different_resources(form: str) -> None:
    """The one large in CPU is the smallest in memory; without it the gang fits all the same."""
    gang = members("g", ("basic", 4, 1), ("large", 1, 2), minimum=2, memory="2Gi")
    result = decided(form, node("n0", cpu=2), *gang, under=UNDER)
    assert set(result.binds) == {"ns/g-basic-0", "ns/g-basic-1"}
