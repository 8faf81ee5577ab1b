"""``quadrant explain``: why a job or a pod waits, or where it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from coordinator.commands.failure import EXIT_USAGE, CommandError
from coordinator.commands.kube_options import Context, Namespace, Output, Server, Verbose


class Subject(StrEnum):
    """What can be asked about."""

    JOB = "job"
    POD = "pod"
    POD_GROUP = "podgroup"


PATHS = {
    Subject.JOB: ("/apis/batch.volcano.sh/v1alpha1", "jobs"),
    Subject.POD: ("/api/v1", "pods"),
    Subject.POD_GROUP: ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
}


def explain(
    *,
    subject: Annotated[Subject, typer.Argument(metavar="KIND", help="job, pod or podgroup")],
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Which one")],
    namespace: Namespace = None,
    output: Output = "",
    server: Server = None,
    context: Context = None,
    verbose: Verbose = False,
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

    from coordinator.commands.answers import painted_words, width
    from coordinator.commands.explaining import explanation
    from coordinator.commands.printing import form_of, write, write_form
    from coordinator.commands.terminal import YELLOW, painted

    form = form_of(output)
    answer = explained(
        subject, name, namespace=namespace, server=server, context=context, verbose=verbose
    )
    if not form.table:
        write_form(form, answer)
        return
    text = "\n".join(painted_words(explanation(answer, columns=width(), now=time.time())))
    if reason := answer.get("reason"):
        text = text.replace(f"{reason}:", painted(reason, YELLOW, sys.stdout) + ":", 1)
    write(f"{text}\n")
    sys.stdout.flush()


def explained(
    subject: Subject,
    name: str,
    *,
    namespace: str | None,
    server: str | None,
    context: str | None,
    verbose: bool,
) -> dict[str, Any]:
    """The server's explanation of what a user named."""
    from coordinator.commands.session import session

    given, _, plain = name.rpartition("/")
    if not plain or "/" in given:
        raise CommandError(f"{name}: not a name; write NAME or NAMESPACE/NAME", code=EXIT_USAGE)
    with session(server=server, context=context, namespace=namespace, verbose=verbose) as asked:
        if given and asked.named and given != asked.namespace:
            raise CommandError(
                f"{name} is in namespace {given}, but -n says {asked.namespace}; leave one out",
                code=EXIT_USAGE,
            )
        return _ask(asked.client, subject, given or asked.namespace, plain)


def _ask(client: Any, subject: Subject, namespace: str, name: str) -> dict[str, Any]:
    from coordinator.kubeclient import KubeError

    tried = [subject, Subject.POD_GROUP] if subject is Subject.JOB else [subject]
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
