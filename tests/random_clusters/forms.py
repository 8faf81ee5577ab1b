"""One random cluster in three forms: one session, ``--shards 1`` and ``--shards 3``.

The checker judges the history of each: every bound pod against every predicate of the policy, every
victim against its rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from laboratory.checker.check import check_lines
from laboratory.checker.report.rules import Rule
from laboratory.replay.cases import Case
from laboratory.replay.cycles import run_cycles
from laboratory.replay.sharded import ShardedRun, run_sharded
from laboratory.simulation.history import Notes
from laboratory.workloads.drawn_policies import plugins_of, policy_of
from laboratory.workloads.extender_answers import refuses
from shard_worker.view.mode import Mode
from tests.laboratory.replay.build import Json, case
from tests.random_clusters.at_rest import left_over
from tests.random_clusters.clusters import cluster, node_usage

CYCLES = 3
"""Sessions in a row: what one promises, the next binds."""
SHARDED = ((1, Mode.NONE), (3, Mode.SOFT))
REST_EVERY = 4
"""One cluster in so many is recorded at rest, and decided once more by one session."""
HOLDS_TREE = 0.3
"""Share of the clusters whose queues have parents."""


@dataclass(slots=True)
class Tried:
    """Results over some clusters."""

    clusters: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """Form and what it did -> how often."""
    facts: Counter[str] = field(default_factory=Counter)
    """Rule of the checker -> facts held against it."""
    plugins: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def drawn(seed: int, *, extender: str) -> tuple[Json, list[Json]]:
    """(policy, objects) of a seed."""
    draw = Random(seed)
    tree = draw.random() < HOLDS_TREE
    policy = policy_of(draw, tree=tree, extender=extender)
    return policy, cluster(draw, tree=tree)


def try_cluster(seed: int, tried: Tried, *, extender: str) -> None:
    """Run the cluster of a seed in all forms, and add to ``tried``."""
    policy, objects = drawn(seed, extender=extender)
    tried.clusters += 1
    tried.plugins.update(plugins_of(policy))
    replay_case = case(*objects, under=policy)
    replay_case.recorded.objects.usage |= node_usage(
        Random(f"{seed} usage"), replay_case.recorded.nodes
    )
    for name, notes, spared in _forms(replay_case, seed, tried):
        report = check_lines(notes.lines, name=f"seed {seed}, {name}", refuses=refuses)
        tried.facts.update({row.rule: row.checked for row in report.rows if row.checked})
        for result in report.violations:
            if result.rule not in spared:
                tried.wrong.append(f"seed {seed}, {name}: {result.rule}: {result}")

    if seed % REST_EVERY == 0:
        for shards, mode in SHARDED:
            left = left_over(seed, policy, objects, shards, mode)
            tried.done[f"{shards} shards at rest"] += 1
            if left:
                tried.wrong.append(f"seed {seed}, --shards {shards}: one session binds {left} more")


def _forms(case: Case, seed: int, tried: Tried) -> Iterator[tuple[str, Notes, set[str]]]:
    """(form, its history, rules that it is not held to)"""
    histories: list[Notes] = []

    def another() -> Notes:
        histories.append(Notes())
        return histories[-1]

    cycles = run_cycles(
        case.policy, case.recorded, name=case.id, cycles=CYCLES, now=case.now, notes=another
    )
    for result in cycles:
        tried.done["session bound"] += len(result.binds)
        tried.done["session evicted"] += len(result.evicted)
        # As in Volcano, a pod that backfill gave a node and that waits for its gang is a neighbour
        # for the rest of the session, and never comes: only a service places job by job.
        waits = any("Allocated" in counts for counts in result.tasks.values())
        spared = {Rule.POD_RULES.label} if waits else set[str]()
        yield f"session {len(histories)}", histories[-1], spared
    for shards, mode in SHARDED:
        notes, sharding = Notes(), ShardedRun(shards, mode, seed)
        result = run_sharded(case.policy, case.recorded, sharding, name=case.id, notes=notes)
        tried.done[f"{shards} shards bound"] += len(result.binds)
        tried.done[f"{shards} shards evicted"] += len(result.evicted)
        yield f"--shards {shards}", notes, set()
