"""Holds the lines of a replay against a scenario's expectation, as the oracle's README says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.manifests.kai.groups import pod_group_of
from shared.units.times import moment

STARTED = {"Allocated", "Binding", "Bound", "Running"}
BOUNDS = {"maxBinds": "binds", "maxEvictions": "evictions", "maxPipelined": "pipelined"}
EXACT = ("requestedGpus", "requestedMilliCpu", "requestedMemory", "acceptedGpus")

Json = Mapping[str, Any]


def wrong(scenario: Json, lines: Sequence[Json]) -> list[str]:
    """Differences from the expected results; empty for none."""
    return [
        f"{line['kind']} {at}: {text}"
        for at, line in enumerate(lines)
        for text in _of(scenario, line)
    ]


def _of(scenario: Json, line: Json) -> Iterator[str]:
    expect = scenario["expect"]
    members = members_of(scenario)
    for job, expected in (expect.get("jobs") or {}).items():
        yield from _job(scenario, line, job, expected, members.get(job, []))
    for task, expected in (expect.get("tasks") or {}).items():
        yield from _task(line, task, expected, sums=True)
        yield from _start(line, group_of(scenario, task), expected, moment(scenario["now"]))
    for node, expected in (expect.get("nodes") or {}).items():
        for key, value in expected.items():
            if not _same(line["nodes"][node][key], value):
                yield f"node {node}: {key} is {line['nodes'][node][key]}, not {value}"
    for bound, counted in BOUNDS.items():
        if bound in expect:
            for counts in line["rounds"]:
                if counts[counted] > expect[bound]:
                    yield f"{counts[counted]} {counted}, at most {expect[bound]}"


def _job(
    scenario: Json, line: Json, job: str, expected: Json, members: Sequence[str]
) -> Iterator[str]:
    for task in members:
        yield from _task(line, task, expected, sums=False)
    for key in EXACT:
        if key in expected:
            total = sum(line["tasks"][task][key] for task in members)
            if not _same(total, expected[key]):
                yield f"job {job}: {key} is {total}, not {expected[key]}"
    yield from _start(line, job, expected, moment(scenario["now"]))


def _task(line: Json, task: str, expected: Json, *, sums: bool) -> Iterator[str]:
    observed = line["tasks"][task]
    if "status" in expected and observed["status"] != expected["status"]:
        yield f"{task}: {observed['status']}, not {expected['status']}"
    if expected.get("node") and observed["node"] != expected["node"]:
        yield f"{task}: on {observed['node']!r}, not {expected['node']}"
    for key in EXACT if sums else ():
        if key in expected and not _same(observed[key], expected[key]):
            yield f"{task}: {key} is {observed[key]}, not {expected[key]}"


def _start(line: Json, job: str, expected: Json, now: float) -> Iterator[str]:
    start = line["podGroups"][job]["lastStart"]
    if expected.get("status") in STARTED and start is None:
        yield f"{job}: has no time of its last start"
    least = expected.get("startedLongerThan")
    if least is not None and (start is None or now - moment(start) < seconds(least)):
        yield f"{job}: started at {start}, not at least {least} before"


def seconds(text: str | float) -> float:
    if isinstance(text, str):
        units = {"s": 1, "m": 60, "h": 3600}
        return float(text[:-1]) * units[text[-1]]
    return float(text)


def _same(left: float, right: float) -> bool:
    return abs(left - right) < 1e-6


def members_of(scenario: Json) -> dict[str, list[str]]:
    """PodGroup -> its pods."""
    members: dict[str, list[str]] = {}
    for pod in scenario["cluster"].get("pods") or ():
        key = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
        members.setdefault(group_of(scenario, key), []).append(key)
    return members


def group_of(scenario: Json, task: str) -> str:
    namespace, _, name = task.partition("/")
    for pod in scenario["cluster"].get("pods") or ():
        metadata = pod["metadata"]
        if metadata["name"] == name and metadata.get("namespace", "default") == namespace:
            return f"{namespace}/{pod_group_of(metadata.get('annotations') or {})}"
    raise KeyError(task)
