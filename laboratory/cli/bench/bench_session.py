"""The run of ``quadrant bench ... --session``: one action of a KAI session, timed by itself."""

from __future__ import annotations

import time
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from coordinator.cli.options.failure import EXIT_ERROR, CommandError
from coordinator.cli.options.options import Output
from laboratory.cli.bench.bench_options import BenchOptions
from laboratory.workloads.kai_shapes import SHAPES, SessionShape
from shard_worker.dialects.open_session import run_action
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.status import Status
from shared.garbage_collection import leave_loaded_objects_alone


def run_session_bench(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    name = options.size.value
    if name not in SHAPES:
        raise CommandError(
            f"--session: {name} needs a service; one of {', '.join(SHAPES)} does not"
        )
    if not options.session:
        raise CommandError(f"{name} runs with --session alone in this version; give it")
    if options.policy is not None:
        raise CommandError("--policy: a session of KAI's default policy is measured; leave it out")
    rows = [
        session_result(shape, nodes)
        for shape in SHAPES[name]
        for nodes in ([options.other_nodes] if options.other_nodes else shape.goals)
    ]
    values = {"bench": name, "session": True, "shapes": rows}
    if options.output is Output.TABLE:
        _show(values)
    else:
        typer.echo(orjson.dumps(values).decode())
    return EXIT_ERROR if any(row["faults"] for row in rows) else 0


def session_result(shape: SessionShape, nodes: int) -> dict[str, Any]:
    """One shape of one size: how long its action took, what it did, and what is wrong with that."""
    session = shape.build(nodes)
    leave_loaded_objects_alone()  # as a worker does once its view is loaded
    waiting = {task for task in session.world.tasks() if task.status is Status.PENDING}
    began, processor = time.perf_counter(), time.process_time()
    run_action(session, shape.action)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    placed = sum(task.status is shape.reached for task in waiting)
    faults = []
    if placed != shape.placed(nodes):
        faults.append(f"{placed:,} tasks have a place, not {shape.placed(nodes):,}")
    return {
        "shape": shape.title,
        "nodes": nodes,
        "seconds": round(seconds, 3),
        "processor_seconds": round(processor, 3),
        "goal_seconds": shape.goals.get(nodes),
        "placed": placed,
        "evicted": sum(op.kind is OpKind.EVICT for op in session.committed),
        "searches": session.searches.searches,
        "simulated": session.searches.simulated,
        "ruled_out": session.searches.ruled_out,
        "faults": faults,
    }


def _show(values: dict[str, Any]) -> None:
    table = Table(
        title=f"{values['bench']}: one session of KAI's default policy",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for heading in ("", "nodes", "time", "goal", "placed", "evicted", "simulated"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for row in values["shapes"]:
        table.add_row(
            row["shape"],
            f"{row['nodes']:,}",
            f"{row['seconds']:,.2f} s",
            "none" if row["goal_seconds"] is None else f"{row['goal_seconds']:g} s",
            f"{row['placed']:,}",
            f"{row['evicted']:,}",
            f"{row['simulated']:,}",
        )
    Console().print(table)
    for row in values["shapes"]:
        over = row["seconds"] - (row["goal_seconds"] or row["seconds"])
        if over > 0:
            Console().print(f"{row['shape']}, {row['nodes']:,} nodes: missed by {over:.2f} s")
        for fault in row["faults"]:
            Console(stderr=True).print(f"{row['shape']}, {row['nodes']:,} nodes: {fault}")
