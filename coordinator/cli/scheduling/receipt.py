"""``quadrant receipt``: the wait of a job as parts that sum to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Namespace, Output
from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.cli.scheduling.explain import (
    ExplainSubject,
    SubjectName,
    SubjectWord,
    explained,
    subject_of,
)


def receipt(
    *,
    subject: SubjectWord,
    name: SubjectName = "",
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Ask no server, but the receipts.jsonl of quadrant lab --receipts, or its folder",
        ),
    ] = None,
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Show what a job waited for: parts that sum exactly to its wait

    A wait lasts from the submission until enough of its tasks run, and again after each eviction.
    Each part has one reason, the jobs behind which it waited, and the queues that had more than
    their share. Then: what was tried, and what would help.

    Examples:

      quadrant receipt job default/train-7

      quadrant receipt pod train-7-worker-0 -o json

      quadrant receipt job 4711 --from results/
    """
    from coordinator.cli.output.printing import form_of, write, write_form
    from coordinator.cli.scheduling.receipt_file import receipts_from
    from coordinator.cli.scheduling.receipt_text import receipt_lines

    form, asked = form_of(output), subject_of(subject, name)
    if source is None:
        bodies = [_of_service(asked, namespace, connection)]
    elif asked.kinds[0].singular == "job":
        bodies = receipts_from(source, asked.name)
    else:
        raise CommandError(f"{source} has jobs; write job NAME", code=EXIT_USAGE)
    if form.table:
        write("\n\n".join("\n".join(receipt_lines(body)) for body in bodies) + "\n")
    elif source is None:
        write_form(form, bodies[0])
    else:
        write_form(form, {"kind": "ReceiptList", "items": bodies})


def _of_service(
    asked: ExplainSubject, namespace: str | None, connection: Connection
) -> dict[str, Any]:
    answer = explained(asked, namespace=namespace, connection=connection, with_receipt=True)
    if "receipt" not in answer:
        raise CommandError(f"{answer['message']}; what it waited for went with its pods")
    return {
        "kind": "Receipt",
        "of": answer["of"],
        "receipt": answer["receipt"],
        "attempts": answer["attempts"],
        "if": answer.get("if", []),
        "next": answer.get("next"),
    }
