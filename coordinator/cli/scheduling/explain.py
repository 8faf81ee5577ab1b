"""``quadrant explain``: why a job or a pod waits, or where it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Namespace, Output
from coordinator.cli.options.failure import EXIT_USAGE, CommandError


class SubjectKind(StrEnum):
    """What can be asked about."""

    JOB = "job"
    POD = "pod"
    POD_GROUP = "podgroup"


PATHS = {
    SubjectKind.JOB: ("/apis/batch.volcano.sh/v1alpha1", "jobs"),
    SubjectKind.POD: ("/api/v1", "pods"),
    SubjectKind.POD_GROUP: ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
}


def explain(
    *,
    subject: Annotated[SubjectKind, typer.Argument(metavar="KIND", help="job, pod or podgroup")],
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Which one")],
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Tell why a job or pod waits, or why it is where it is

    Every node is counted once, by the first check that keeps it out, so that the counts add up.
    job finds a PodGroup too where there is no Job of the name; of a pod its job is told, and
    itself.

    Examples:

      quadrant explain job default/train-7

      quadrant explain pod train-7-worker-0 -n default -o json
    """
    import sys
    import time

    from coordinator.cli.output.paragraphs import painted_words, width
    from coordinator.cli.output.printing import form_of, write, write_form
    from coordinator.cli.output.terminal import YELLOW, painted
    from coordinator.cli.scheduling.explain_text import explanation

    form = form_of(output)
    answer = explained(subject, name, namespace=namespace, connection=connection)
    if not form.table:
        write_form(form, answer)
        return
    text = "\n".join(painted_words(explanation(answer, columns=width(), now=time.time())))
    if reason := answer.get("reason"):
        text = text.replace(f"{reason}:", painted(reason, YELLOW, sys.stdout) + ":", 1)
    write(f"{text}\n")
    sys.stdout.flush()


def explained(
    subject: SubjectKind,
    name: str,
    *,
    namespace: str | None,
    connection: Connection,
) -> dict[str, Any]:
    """The server's explanation of what a user named."""
    from coordinator.cli.client.session import session

    own_namespace, _, plain = name.rpartition("/")
    if not plain or "/" in own_namespace:
        raise CommandError(f"{name}: not a name; write NAME or NAMESPACE/NAME", code=EXIT_USAGE)
    with session(connection, namespace=namespace) as api:
        if own_namespace and api.named and own_namespace != api.namespace:
            raise CommandError(
                f"{name} is in namespace {own_namespace}, but -n says {api.namespace}; "
                "leave one out",
                code=EXIT_USAGE,
            )
        return _ask(api.client, subject, own_namespace or api.namespace, plain)


def _ask(client: Any, subject: SubjectKind, namespace: str, name: str) -> dict[str, Any]:
    from coordinator.cli.client.client import KubeError

    tried = [subject, SubjectKind.POD_GROUP] if subject is SubjectKind.JOB else [subject]
    failure: KubeError | None = None
    for kind in tried:
        root, plural = PATHS[kind]
        path = f"{root}/namespaces/{namespace}/{plural}/{name}/explain"
        try:
            answer: dict[str, Any] = client.get(path)
            return answer
        except KubeError as error:
            if error.code != 404:
                raise
            failure = failure or error
    assert failure is not None
    raise failure
