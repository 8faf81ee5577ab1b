"""``quadrant wait``: until objects are in a state, or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import (
    AllNamespaces,
    FieldSelector,
    Namespace,
    Selector,
    Targets,
)
from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.kinds import Resource
    from coordinator.cli.client.session import ServerSession

WEEK = 7 * 86400.0
"""A negative timeout, as in kubectl."""
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """The state to wait for. ``met`` is called with None while the object does not exist."""

    met: Callable[[Object | None], bool]
    success_text: str
    """Text printed behind the object once the goal is met."""
    description: str
    """For the message of a time-out."""
    absent: bool = False
    """Whether an object that is not there may be waited for, or has met the goal."""


def wait(
    targets: Targets,
    *,
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="GOAL",
            help="condition=NAME[=STATUS], jsonpath=PATH[=VALUE], delete or create",
        ),
    ],
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="TIME", help="Maximum time: 30s, 2m; 0 = look once"),
    ] = "30s",
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    everything: Annotated[bool, typer.Option("--all", help="All objects of the kind")] = False,
    connection: Connection,
) -> None:
    """Wait until objects are in a state

    Ends with 1 after the timeout.

    Examples:

      quadrant wait podgroup/train-7 --for=condition=Scheduled --timeout=2m

      quadrant wait pod/web-0 --for=jsonpath='{.status.phase}'=Running

      quadrant wait podgroup/train-7 --for=delete
    """
    from coordinator.cli.client.client import RequestRefused
    from coordinator.cli.client.session import session
    from coordinator.cli.output.durations import seconds_of
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import say_error

    condition = goal_of(goal)
    seconds = seconds_of(timeout, "--timeout")
    deadline = time.monotonic() + (seconds if seconds >= 0 else WEEK)
    failed = 0
    with session(connection, namespace=namespace) as api:
        chosen = bool(selector or field_selector or everything)
        query = api.list_query(labels=selector, fields=field_selector)
        places: list[tuple[Resource, str | None, str]] = []
        for target in api.catalog.targets(targets):
            if bool(target.names) == chosen:
                message = "name objects, or choose them with -l, --field-selector or --all"
                raise CommandError(f"{target.resource.plural}: {message}", code=EXIT_USAGE)
            place = api.place(target.resource, everywhere=all_namespaces and chosen)
            places += [(target.resource, place, name) for name in target.names]
            if chosen:
                for item in api.items(target.resource.path(place), query):
                    meta = item["metadata"]
                    places.append((target.resource, meta.get("namespace"), str(meta["name"])))
        if not places and not condition.absent:
            raise CommandError("no matching object was found")
        for resource, place, name in places:
            try:
                if _wait(api, resource, place, name, goal=condition, deadline=deadline):
                    write(f"{resource.label}/{name} {condition.success_text}\n")
                    continue
                say_error(
                    f"timed out waiting for {condition.description} on {resource.plural}/{name}"
                )
            except RequestRefused as error:
                say_error(str(error))
            failed += 1
    if failed:
        raise typer.Exit(EXIT_ERROR)


def _wait(
    session: ServerSession,
    resource: Resource,
    place: str | None,
    name: str,
    *,
    goal: Goal,
    deadline: float,
) -> bool:
    """Whether the goal was met in time. Follows the object; begins anew where that breaks off."""
    from coordinator.cli.client.client import KubeError

    path = resource.path(place)
    query = {"fieldSelector": f"metadata.name={name}"}
    while True:
        listed = session.client.get(path, query)
        items = listed.get("items") or []
        if goal.met(items[0] if items else None):
            return True
        if not items and not goal.absent:
            session.client.get(resource.path(place, name))  # says that it is not there
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0:
            return False
        # From the list's version on: what changes between the list and the watch is not missed.
        version = (listed.get("metadata") or {}).get("resourceVersion")
        try:
            changes = session.client.watch(
                path, {**query, "resourceVersion": version}, seconds=seconds_left
            )
            for event in changes:
                is_deleted = event.get("type") == "DELETED"
                if goal.met(None if is_deleted else event.get("object")):
                    return True
                if time.monotonic() > deadline:
                    return False
        except KubeError as error:
            # The watch fell too far behind, as from a Kubernetes API server: list again.
            if error.code != 410:
                raise
        time.sleep(0.1)


# --- goals ------------------------------------------------------------------------------------


def goal_of(text: str) -> Goal:
    """Raises :class:`CommandError` (usage)."""
    kind, equals, rest = text.partition("=")
    match kind:
        case "delete" if not equals:
            return Goal(lambda value: value is None, "deleted", "its deletion", absent=True)
        case "create" if not equals:
            return Goal(lambda value: value is not None, "created", "its creation", absent=True)
        case "condition" if rest:
            return _condition(rest)
        case "jsonpath" if rest:
            return _path(rest)
        case _:
            raise CommandError(
                f"--for {text}: not known; write condition=NAME, jsonpath=PATH=VALUE, delete or "
                "create",
                code=EXIT_USAGE,
            )


def _condition(rest: str) -> Goal:
    name, _, status = rest.partition("=")
    expected = (status or "True").lower()

    def met(value: Object | None) -> bool:
        conditions = ((value or {}).get("status") or {}).get("conditions") or ()
        return any(
            str(condition.get("type")).lower() == name.lower()
            and str(condition.get("status")).lower() == expected
            for condition in conditions
        )

    return Goal(met, "condition met", "the condition")


def _path(rest: str) -> Goal:
    """``{.a.b}=value``; without a value: until there is one."""
    from coordinator.cli.client.jsonpath import text_of
    from coordinator.cli.output.printing import path_of

    head, brace, tail = rest.rpartition("}")
    if brace:
        template, value = head + brace, tail.removeprefix("=")
    else:
        template, _, value = rest.partition("=")
    path = path_of(template, "--for jsonpath")

    def met(obj: Object | None) -> bool:
        texts = [text_of(node) for node in path.find(obj)] if obj is not None else []
        return value in texts if value else any(texts)

    return Goal(met, "condition met", f"{template}" + (f" to be {value}" if value else ""))
