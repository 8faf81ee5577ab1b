"""Holding the running path, halted where one session ends, against a scenario's own table.

Nothing that is bound begins to run and nothing that is evicted leaves, so that the table holds as
it stands, with its phases and counts, and whatever it leaves out is as one session has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from laboratory.replay.outcome import ReplayResult
from shared.codec.packed import replace
from tests.conformance.judge import differences


def differences_after_one_session(
    scenario: Mapping[str, Any],
    session: ReplayResult,
    halted: ReplayResult,
    *,
    shards_prefer_own: bool = False,
) -> list[str]:
    """One line for each thing that is otherwise than in the table, or than in ``session``.

    ``shards_prefer_own``: in soft mode the best node of the own shard comes before a better one of
    another.
    """
    anywhere = shards_prefer_own or "sharding" in scenario  # whose shard it is, is chance here
    result = _promised(session, halted)
    if anywhere:
        result = _placed_alike(session, result)
    return [*differences(result, scenario), *_beside_the_table(session, result)]


def _promised(session: ReplayResult, halted: ReplayResult) -> ReplayResult:
    """The result with promises of idle room that were kept at once as promises again: a session of
    preempt alone leaves the bind to the next one, a service has no reason to wait for it."""
    pipelined = {
        pod: node for pod, node in halted.binds.items() if session.pipelined.get(pod) == node
    }
    return replace(
        halted,
        binds={pod: node for pod, node in halted.binds.items() if pod not in pipelined},
        pipelined=halted.pipelined | pipelined,
    )


def _placed_alike(session: ReplayResult, result: ReplayResult) -> ReplayResult:
    """The result with each pod where the session has it, if both have a place for it."""
    binds = {pod: session.binds.get(pod, node) for pod, node in result.binds.items()}
    places = {pod: session.pipelined.get(pod, node) for pod, node in result.pipelined.items()}
    return replace(result, binds=binds, pipelined=places)


def _beside_the_table(session: ReplayResult, result: ReplayResult) -> Iterator[str]:
    """Differences that a table need not name: pods bound, promised and evicted, counts, other
    phases."""
    for what, expected, actual in (
        ("bound", sorted(session.binds), sorted(result.binds)),
        ("promised", sorted(session.pipelined), sorted(result.pipelined)),
        ("evicted", sorted(session.evicted), sorted(result.evicted)),
    ):
        if expected != actual:
            yield f"{what}: one session has {expected}, the service {actual}"
    for group, counts in session.tasks.items():
        # A session ends before the cluster answers a bind, and a promise may be bound by then.
        wanted_counts, got_counts = (_placed(each) for each in (counts, result.tasks[group]))
        if wanted_counts != got_counts:
            yield f"tasks of {group}: one session has {wanted_counts}, the service {got_counts}"
    for group, report in session.pod_groups.items():
        phase = result.pod_groups[group]["phase"]
        # Of a group that got places the session's phase is of before the cluster's answer.
        got_places = session.tasks.get(group, {}).keys() & {"Binding", "Pipelined"}
        if not got_places and report["phase"] != phase:
            yield f"phase of {group}: one session has {report['phase']}, the service {phase}"


def _placed(counts: Mapping[str, int]) -> Counter[str]:
    words = {"Binding": "placed", "Bound": "placed", "Pipelined": "placed"}
    summed: Counter[str] = Counter()
    for word, count in counts.items():
        summed[words.get(word, word)] += count
    return summed
