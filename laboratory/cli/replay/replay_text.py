"""The parts of ``quadrant replay``: how a case is run, how long it takes, and its tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coordinator.cli.output.printing import TextColumns
from coordinator.cli.output.terminal import painter, width_of

if TYPE_CHECKING:
    from laboratory.replay.cases import Case
    from laboratory.replay.compare import DecisionDifference
    from laboratory.replay.kai.scenario import KaiScenario
    from laboratory.replay.outcome import ReplayResult

Step = Callable[[], None]
AWAITS_VOLUMES = "bound once its volumes are"


def run_case(
    case: Case, *, cycles: int | None, shards: int | None, mode: str, seed: int
) -> Iterator[ReplayResult]:
    """Decide a case by sessions, or by a service with so many shards."""
    if shards is not None:
        from laboratory.replay.sharded import ShardedRun, run_sharded
        from shard_worker.view.mode import Mode

        sharding = ShardedRun(shards, Mode(mode), seed, one_session=cycles is not None)
        with progress(f"shards: {shards}", None) as step:
            yield run_sharded(
                case.policy, case.recorded, sharding, name=case.id, step=step, began=case.now
            )
        return
    from laboratory.replay.cycles import run_cycles

    with progress("sessions", cycles or 1) as step:
        for result in run_cycles(
            case.policy,
            case.in_session or case.recorded,
            name=case.id,
            cycles=cycles or 1,
            mode=case.mode,
            own_rows=case.own_rows,
            now=case.now,
        ):
            step()
            yield result


def run_kai(scenario: KaiScenario, *, shards: int, mode: str, seed: int) -> Iterator[ReplayResult]:
    """Decide a scenario of KAI's by a service with so many shards."""
    from laboratory.replay.kai.service import run_kai_sharded
    from laboratory.replay.sharded import ShardedRun
    from shard_worker.view.mode import Mode

    with progress(f"shards: {shards}", None) as step:
        yield run_kai_sharded(scenario, ShardedRun(shards, Mode(mode), seed), step=step)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Step]:
    """A bar on stderr where somebody watches and there is more than one step."""
    if total == 1 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


# --- tables -------------------------------------------------------------------------------------


def table_of(result: ReplayResult, title: str) -> str:
    """Table of the decisions, one a line; then every PodGroup, and the waiting pods without one."""
    decided = [
        *(("bind", pod, node, "") for pod, node in sorted(result.binds.items())),
        *(
            ("place", pod, node, AWAITS_VOLUMES)
            for pod, node in sorted(result.awaiting_volumes.items())
        ),
        *(("evict", pod, *result.victims.get(pod, ("", ""))) for pod in sorted(result.evicted)),
        *(("promise", pod, node, "") for pod, node in sorted(result.pipelined.items())),
    ]
    waits = sum(counts.get("Pending", 0) for counts in result.tasks.values()) + len(result.alone)
    counts = (
        f"{title}: {len(result.binds)} bound, {len(result.evicted)} evicted, "
        f"{len(result.pipelined)} promised a node, {waits} wait"
    )
    if result.awaiting_volumes:
        counts += f", {len(result.awaiting_volumes)} placed and waiting for volumes"
    groups = [
        (key, str(group["phase"]), _states(result.tasks[key]), "; ".join(group["reasons"]))
        for key, group in sorted(result.pod_groups.items())
    ]
    alone = [(pod, "; ".join(reasons)) for pod, reasons in sorted(result.alone.items())]
    return "\n".join(
        [
            counts,
            *_table(("DECISION", "POD", "NODE", "WHY"), decided),
            *_table(("PODGROUP", "PHASE", "PODS", "WHY"), groups),
            *_table(("POD", "WHY"), alone),
        ]
    )


def _states(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def table_of_differences(title: str, changes: Sequence[DecisionDifference]) -> str:
    rows = [(d.kind, d.name, d.ours, d.theirs) for d in changes]
    heading = (
        "1 decision is different" if len(rows) == 1 else f"{len(rows)} decisions are different"
    )
    lines = [f"{title}: {heading if rows else 'both policies decide the same'}"]
    return "\n".join([*lines, *_table(("KIND", "NAME", "POLICY", "OTHER"), rows)])


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Nothing where there are no rows."""
    if not rows:
        return []
    lines: list[str] = []
    out = sys.stdout
    TextColumns(headers, out=lines.append, paint=painter(out), width=width_of(out)).rows(rows)
    return ["", *"".join(lines).rstrip("\n").split("\n")]
