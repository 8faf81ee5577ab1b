"""``quadrant story``: what happened to a job, from its submission on."""

from __future__ import annotations

from typing import Any

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Namespace, Output
from coordinator.cli.scheduling.explain import SubjectName, SubjectWord, explained, subject_of


def story(
    *,
    subject: SubjectWord,
    name: SubjectName = "",
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Show the history of a job or pod, from its submission on

    Submission, reasons for waiting, lost conflicts, the node and level of each placement, starts,
    evictions with their rule, ends. After a takeover the reasons for waiting from before are
    missing; everything else is read from the history.

    Examples:

      quadrant story job default/train-7

      quadrant story pod train-7-worker-0 -o json
    """
    from coordinator.cli.output.printing import form_of, write, write_form

    form = form_of(output)
    answer = explained(subject_of(subject, name), namespace=namespace, connection=connection)
    if not form.table:
        write_form(form, {"kind": "Story", "of": answer["of"], "story": answer["story"]})
        return
    write("\n".join(lines(answer)) + "\n")


def lines(answer: dict[str, Any]) -> list[str]:
    """One line for each thing that happened: time, word, how often, sentence, and whom."""
    rows = [(_when(entry), _word(entry), _text(entry)) for entry in answer["story"]]
    widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    of = answer["of"]
    head = f"{of['kind']} {of['namespace']}/{of['name']}"
    return [head, *(f"{at:{widths[0]}}  {word:{widths[1]}}  {text}" for at, word, text in rows)]


def _when(entry: dict[str, Any]) -> str:
    return str(entry["time"]).replace("T", " ").removesuffix("Z")


def _word(entry: dict[str, Any]) -> str:
    times = f" x{entry['count']}" if entry["count"] > 1 else ""
    return f"{entry['reason']}{times}"


def _text(entry: dict[str, Any]) -> str:
    names = list(entry["names"])
    more = entry["tasks"] - len(names)
    task_names = f"  [{', '.join(names)}{f' and {more} more' if more > 0 else ''}]" if names else ""
    return f"{entry['message']}{task_names}"
