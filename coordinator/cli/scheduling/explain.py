"""``quadrant explain``: why a job or a pod waits, or where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from coordinator.cli.client.completion import complete_subject_kinds, complete_subjects
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Namespace, Output
from coordinator.cli.options.failure import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.session import ServerSession
    from coordinator.intake.documents.kinds import Kind

T = TypeVar("T")


KINDS = ("job", "pod", "podgroup")
"""Words for the kinds that an explanation can be requested for, as the commands' help has them."""

SubjectWord = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        autocompletion=complete_subject_kinds(*KINDS),
        help="job, pod or podgroup, or as kubectl names them; or KIND/NAME in one word",
    ),
]
SubjectName = Annotated[
    str,
    typer.Argument(
        metavar="[[NAMESPACE/]NAME]", autocompletion=complete_subjects, help="Which one"
    ),
]


class ExplainSubject(NamedTuple):
    """The object that a user asks about. ``kinds``: what it may be, the likeliest first. ``name``
    as written, with its namespace or without."""

    kinds: tuple[Kind, ...]
    name: str


def subject_of(word: str, name: str) -> ExplainSubject:
    """The kind and name that were written as ``KIND NAME`` or ``KIND/NAME``. Raises
    :class:`CommandError` (usage)."""
    word, slash, own_name = word.partition("/")
    if slash and name:
        raise CommandError(
            f"{word}/{own_name} names one already; leave out {name}", code=EXIT_USAGE
        )
    if not (kinds := _kinds_named(word.lower())):
        raise CommandError(
            f"{word}: not one of {', '.join(KINDS)}; write {KINDS[0]} NAME", code=EXIT_USAGE
        )
    if not (own_name or name):
        raise CommandError(f"no name; write {word} NAME or {word}/NAME", code=EXIT_USAGE)
    return ExplainSubject(kinds, own_name or name)


def _kinds_named(word: str) -> tuple[Kind, ...]:
    """The kinds that a word means. A Job's name may be that of a PodGroup, and a PodGroup may be
    Volcano's, KAI's or Kubernetes' own; with its API group (``podgroups.scheduling.k8s.io``) it
    is that one."""
    from coordinator.intake.documents.kinds import JOB, POD, POD_GROUPS

    kinds = (JOB, POD, *POD_GROUPS)
    named = tuple(kind for kind in kinds if word in (kind.singular, kind.plural, *kind.short))
    if not named:
        full = (f"{kind.singular}.{kind.group}" for kind in kinds)
        return tuple(
            kind for kind, one in zip(kinds, full, strict=True) if word in (kind.resource, one)
        )
    return (JOB, *POD_GROUPS) if named == (JOB,) else named


def explain(
    *,
    subject: SubjectWord,
    name: SubjectName = "",
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Explain why a job or pod waits, or why it is where it is

    Every node is counted once, under the first check that excludes it, so that the counts add up.
    If there is no Job of the name, job finds a PodGroup. For a pod, its job is explained too.

    Examples:

      quadrant explain job default/train-7

      quadrant explain pod/train-7-worker-0 -n default -o json
    """
    import sys
    import time

    from coordinator.cli.output.paragraphs import painted_words, width
    from coordinator.cli.output.printing import form_of, write, write_form
    from coordinator.cli.output.terminal import YELLOW, painted
    from coordinator.cli.scheduling.explain_text import explanation

    form = form_of(output)
    asked = subject_of(subject, name)
    answer = explained(asked, namespace=namespace, connection=connection)
    if not form.table:
        write_form(form, answer)
        return
    text = "\n".join(painted_words(explanation(answer, columns=width(), now=time.time())))
    if reason := answer.get("reason"):
        text = text.replace(f"{reason}:", painted(reason, YELLOW, sys.stdout) + ":", 1)
    write(f"{text}\n")
    sys.stdout.flush()


def explained(
    subject: ExplainSubject,
    *,
    namespace: str | None,
    connection: Connection,
    with_receipt: bool = False,
) -> dict[str, Any]:
    """The server's explanation of what a user named. ``with_receipt``: with the parts of its
    wait."""
    from coordinator.cli.client.session import session

    with session(connection, namespace=namespace) as api:
        query = {"receipt": "true"} if with_receipt else None
        paths = subject_paths(api, subject, "explain")
        return first_found(paths, lambda path: api.client.get(path, query))


def subject_paths(api: ServerSession, subject: ExplainSubject, verb: str) -> list[str]:
    """The paths at which the server may know what a user named, the likeliest first. Raises
    :class:`CommandError` (usage)."""
    name = subject.name
    own_namespace, _, plain = name.rpartition("/")
    if not plain or "/" in own_namespace:
        raise CommandError(f"{name}: not a name; write NAME or NAMESPACE/NAME", code=EXIT_USAGE)
    if own_namespace and api.named and own_namespace != api.namespace:
        raise CommandError(
            f"{name} is in namespace {own_namespace}, but -n says {api.namespace}; leave one out",
            code=EXIT_USAGE,
        )
    namespace = own_namespace or api.namespace
    return [
        f"{kind.root}/namespaces/{namespace}/{kind.plural}/{plain}/{verb}" for kind in subject.kinds
    ]


def first_found(paths: list[str], ask: Callable[[str], T]) -> T:
    """The answer at the first path that is there. Raises KubeError."""
    from coordinator.cli.client.client import KubeError

    failure: KubeError | None = None
    for path in paths:
        try:
            return ask(path)
        except KubeError as error:
            if error.code != 404:
                raise
            failure = failure or error
    assert failure is not None
    raise failure
