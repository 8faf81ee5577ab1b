"""Holding the running path against a scenario: what a service came to that went on until rest.

A scenario's table stops after one session; coordinator, workers and ledger go on until nothing
changes. So what one session promised may be bound by then, and what it evicted may run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from laboratory.replay.outcome import ReplayResult
from tests.conformance.judge import KNOWN, lowest, pods_of


def differences_at_rest(
    scenario: Mapping[str, Any],
    session: ReplayResult,
    rest: ReplayResult,
    *,
    shards_prefer_own: bool = False,
) -> list[str]:
    """One line for each thing that is not as the scenario wants it.

    ``session``: the result of one session over everything, which is as expected; it names what the
    table leaves out (which tasks were promised, the other phases). ``shards_prefer_own``: in soft
    mode the best node of the own shard comes before a better one of another.
    """
    expect: Mapping[str, Any] = scenario["expect"]
    anywhere = shards_prefer_own or "sharding" in scenario  # whose shard it is, is chance here
    lines = [f"expects {key}: this test does not know it" for key in set(expect) - KNOWN]
    lines += _of_victims(expect, session, rest, others="sharding" in scenario)
    lines += _of_binds(scenario, session, rest, anywhere=anywhere)
    lines += _of_promises(scenario, session, rest, anywhere=anywhere)
    if not _moved(session) and not _moved(rest):
        lines += _of_phases(expect, session, rest)
    for group, counts in expect.get("taskStatusNums", {}).items():
        if rest.tasks.get(group) != counts:
            lines.append(f"tasks of {group}: expected {counts}, got {rest.tasks.get(group)}")
    return lines


def _of_victims(
    expect: Mapping[str, Any], session: ReplayResult, rest: ReplayResult, *, others: bool
) -> Iterator[str]:
    """The same victims, each evicted once. ``others``: another node's victims are as good."""
    expected = sorted(expect.get("evicted", session.evicted))
    evicted = sorted(rest.evicted)
    again = {pod: times for pod, times in Counter(evicted).items() if times > 1}
    if again:
        yield f"evicted more than once: {again}"
    if (len(expected) != len(evicted)) if others else (expected != evicted):
        yield f"evicted: expected {expected}, got {sorted(set(evicted))}"


def _of_binds(
    scenario: Mapping[str, Any], session: ReplayResult, rest: ReplayResult, *, anywhere: bool
) -> Iterator[str]:
    """Differences in binds: the service binds all that the session bound, and beyond that only pods
    that were promised a place or evicted."""
    expect: Mapping[str, Any] = scenario["expect"]
    expected: Mapping[str, str] = expect.get("bindMap", {})
    for pod, node in expected.items():
        bound = rest.binds.get(pod)
        if bound is None:
            yield f"not bound: {pod}, expected on {node}"
        elif bound != node and not anywhere:
            yield f"bound to {bound}: {pod}, expected on {node}"
    later = {*session.pipelined, *rest.evicted}
    at_once = {pod: node for pod, node in rest.binds.items() if pod not in later}
    missing = int(expect.get("bindsNum", len(session.binds))) - len(at_once)
    if missing > 0 and not expected:
        yield f"bound: {missing} fewer than the {expect['bindsNum']} expected"
    if missing < 0 and not _leaving(scenario):
        beyond = sorted(pod for pod in at_once if pod not in expected)
        yield f"bound though it was to wait: {beyond}, {-missing} of them too many"
    if "bindNumsInHyperNode" in expect:
        numbers = sorted(lowest(scenario["cluster"], rest.binds).values())
        if numbers != sorted(expect["bindNumsInHyperNode"]):
            yield f"binds by hyper node: expected {expect['bindNumsInHyperNode']}, got {numbers}"


def _leaving(scenario: Mapping[str, Any]) -> bool:
    return any(
        "deletionTimestamp" in pod["metadata"] for pod in scenario["cluster"].get("pods", [])
    )


def _of_promises(
    scenario: Mapping[str, Any], session: ReplayResult, rest: ReplayResult, *, anywhere: bool
) -> Iterator[str]:
    """Differences in promises: each promised pod is promised or bound at its promised place."""
    places = rest.binds | rest.pipelined
    for pod, node in session.pipelined.items():
        place = places.get(pod)
        if place is None:
            yield f"neither promised nor bound: {pod}, expected on {node}"
        elif place != node and not anywhere:
            yield f"promised or bound {place}: {pod}, expected on {node}"
    for group, nodes in scenario["expect"].get("pipelined", {}).items():
        placed = [places[pod] for pod in pods_of(scenario, group) if pod in places]
        if not placed or not set(placed) <= set(nodes):
            yield f"promised to {group}: expected on {nodes}, got {placed}"
    for pod, node in rest.pipelined.items():
        if pod not in session.pipelined:
            yield f"promised {node}: {pod}, which was to wait"


def _moved(result: ReplayResult) -> bool:
    return bool(result.binds or result.evicted or result.pipelined)


def _of_phases(
    expect: Mapping[str, Any], session: ReplayResult, rest: ReplayResult
) -> Iterator[str]:
    """The same phases, where nothing moved that would change them."""
    phases = {group: str(report["phase"]) for group, report in session.pod_groups.items()}
    for group, phase in (phases | dict(expect.get("podGroupPhase", {}))).items():
        came = rest.pod_groups.get(group, {}).get("phase")
        if came != phase:
            yield f"phase of {group}: expected {phase}, got {came}"
