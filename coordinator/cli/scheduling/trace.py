"""``quadrant trace``: each step of a job's next turns, live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Namespace, Output
from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.cli.scheduling.explain import (
    SubjectName,
    SubjectWord,
    first_found,
    subject_of,
    subject_paths,
)

Step = dict[str, Any]

STAGES = {
    "jobOrder": "job order",
    "prePredicate": "prepredicate",
    "predicate": "nodes",
    "nodeOrder": "scores",
}
"""The words for people, where they are not the ones of the stream."""
LEVELS = {
    "L1": "idle own",
    "L2": "idle other",
    "L3": "future idle own",
    "L4": "future idle other",
}
LEAVES = {"end": "End", "dropped": "Dropped"}


def trace(
    *,
    subject: SubjectWord,
    name: SubjectName = "",
    turns: Annotated[int, typer.Option("--turns", min=1, max=50, help="How many turns")] = 3,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=600, help="How long")] = 60,
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Follow a job's next turns, step by step: queue, nodes, levels, scores, commit

    The coordinator reports whether the queue is skipped and which jobs come first. The shard
    reports the nodes that fit, the reasons of the others, the count at each of the four levels, the
    best nodes with each plugin's score, and the ledger's answer. Ends after the given turns or
    time, or when all tasks are placed. With -o json each step is one line.

    Examples:

      quadrant trace job default/train-7

      quadrant trace job train-7 --turns 1 --seconds 600 -o json
    """
    import sys

    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import form_of, write, write_form

    form, asked = form_of(output), subject_of(subject, name)
    if form.word == "name":
        raise CommandError("-o name: steps have no name; write json", code=EXIT_USAGE)
    query = {"turns": turns}
    with session(connection, namespace=namespace) as api:

        def begin(path: str) -> tuple[Step | None, Iterator[Step]]:
            steps = api.client.watch(path, query, seconds=seconds)
            return next(steps, None), steps

        first, others = first_found(subject_paths(api, asked, "trace"), begin)
        step = first
        while step is not None:
            if form.table:
                write("".join(f"{line}\n" for line in lines(step)))
            elif form.word == "json":
                write(_line(step))
            else:
                write_form(form, step)
            sys.stdout.flush()
            if step["stage"] == "end":
                return
            step = next(others, None)
    raise CommandError("the trace broke off: its coordinator is gone; trace again")


def _line(step: Step) -> str:
    import orjson

    return orjson.dumps(step).decode() + "\n"


def lines(step: Step) -> list[str]:
    """A step for people: a line, and under it the nodes by reason, by level, by score."""
    stage = str(step["stage"])
    if stage in LEAVES:
        return [f"{LEAVES[stage]}: {step['message']}"]
    at = str(step["time"]).partition("T")[2].removesuffix("Z")
    turn = f"turn {step['turn']}" if step["turn"] else ""
    head = f"{at}  {turn:7} {step.get('shard', ''):8} {STAGES.get(stage, stage):12}"
    text = _text(step)
    indent = " " * (len(at) + 4)
    return [f"{head} {text}".rstrip(), *(f"{indent}{line}" for line in _details(step))]


def _text(step: Step) -> str:
    role, message = step.get("role"), str(step.get("message") or "")
    parts = [f"{role}:"] if role else []
    if levels := step.get("levels"):
        shown = ", ".join(f"{LEVELS[level]} {count}" for level, count in levels.items())
        message = f"{message} ({shown})" if message else shown
    if message:
        parts.append(message)
    if nodes := step.get("nodes"):
        parts.append(f"[{', '.join(nodes)}]")
    return " ".join(parts)


def _details(step: Step) -> Iterator[str]:
    reasons = sorted((step.get("reasons") or {}).items(), key=lambda item: (-item[1], item[0]))
    for reason, count in reasons:
        yield f"{count:>7} {reason}"
    for node in step.get("candidates") or ():
        parts = ", ".join(f"{plugin} {score:g}" for plugin, score in node["scores"].items())
        yield f"{node['score']:>9g} {node['node']} ({LEVELS[node['level']]}; {parts})"
