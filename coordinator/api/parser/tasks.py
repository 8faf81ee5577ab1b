"""The work of a parser process: pure functions of a request and its body.

For small bodies the event loop calls the same functions (:mod:`coordinator.api.write.handlers`,
:mod:`coordinator.api.write.bulk`, :mod:`coordinator.api.subresources`), so an answer does not
depend on where it was computed, except that large bodies have a limit on values that the loop can
take in.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

from coordinator.api.change.bodies import bad
from coordinator.api.change.change import Author, ChangeRequest, CurrentObject, Verb
from coordinator.errors import Cause, Problem
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import BY_KIND
from shared.errors import InvalidInput
from shared.manifests.text.bounds import check_values, within
from shared.manifests.text.errors import TextError, TextLimits
from shared.manifests.text.text import read_list, read_objects

PART_BYTES = 1 << 16
"""Bytes per part of an answer, or one object if that is larger; read within half a millisecond."""
PART_VALUES = 1500
"""Values per part: building and freeing them costs 0.1 us each. Where a page of fresh memory is
dear (12 us in a sandbox), 4,000 values took 19 ms of the loop now and then."""
LIST_VALUES = 400_000
"""Maximum values of all objects of a body: they are freed at once, 30 ns each."""

PLAN_VALUES = 100_000
"""The same for a plan, which may be YAML: half a second of processor time."""

Json = dict[str, Any]


class ParserTask(StrEnum):
    LIST = "list"
    """A JSON List -> its items."""
    OBJECTS = "objects"
    """JSON or YAML, several documents -> all objects."""
    WRITE = "write"
    """A request that writes one object -> that object, as it is to be admitted."""


def perform(request: Json, body: bytes) -> Iterator[bytes]:
    """The answer in parts, each a JSON list of values. Raises TextError, Problem."""
    match ParserTask(request["task"]):
        case ParserTask.LIST:
            yield from _parts(read_list(body, limits=TextLimits(**request["limits"])))
        case ParserTask.OBJECTS:
            limits = TextLimits(**request["limits"], values=PLAN_VALUES)
            yield from _parts(read_objects(body, form=request["form"], limits=limits))
        case ParserTask.WRITE:
            yield orjson.dumps([_written(request, body)])


def _parts(items: list[Any]) -> Iterator[bytes]:
    if not within(items, LIST_VALUES):
        raise TextError(f"more than {LIST_VALUES} values; send it in several requests")
    part: list[bytes] = []
    size = 0
    for i, item in enumerate(items):
        try:
            check_values(item)
        except InvalidInput as error:
            raise TextError(error.message, field=f"items[{i}]") from error
        encoded = orjson.dumps(item)
        if part and size + len(encoded) > PART_BYTES:
            yield b"[" + b",".join(part) + b"]"
            part, size = [], 0
        part.append(encoded)
        # Commas stand for values: a part ends by bytes or by values, whichever comes first, without
        # a walk over the object.
        size += len(encoded) + encoded.count(b",") * (PART_BYTES // PART_VALUES)
    yield b"[" + b",".join(part) + b"]"


# --- writing one object -----------------------------------------------------------------------


def write_request(wish: ChangeRequest, body: bytes, now: CurrentObject) -> tuple[Json, bytes]:
    """A request for :func:`perform`, with its body."""
    before, live = now.before, b"" if now.live is None else orjson.dumps(now.live)
    request: Json = {
        "task": ParserTask.WRITE,
        "verb": wish.verb,
        "kind": wish.kind.kind,
        "namespace": wish.namespace,
        "name": wish.name,
        "language": wish.language,
        "suffix": wish.suffix,
        "author": [wish.author.manager, wish.author.time, wish.author.force],
        "written": now.written,
        "before": None if before is None else [before.created, before.deleting],
        "sizes": [len(body), 0 if before is None else len(before.body)],
    }
    return request, b"".join((body, b"" if before is None else before.body, live))


def _written(request: Json, body: bytes) -> Json:
    first, second = request["sizes"]
    kind = BY_KIND[request["kind"]]
    wish = ChangeRequest(
        verb=Verb(request["verb"]),
        kind=kind,
        namespace=request["namespace"],
        name=request["name"],
        language=request["language"],
        suffix=request["suffix"],
        author=Author(*request["author"]),
    )
    before = None
    if request["before"] is not None:
        created, deleting = request["before"]
        key = Key(kind.kind, wish.namespace, wish.name)
        before = Document(key, body[first : first + second], created, deleting=deleting)
    live = body[first + second :]
    now = CurrentObject(before, orjson.loads(live) if live else None, request["written"])
    sent = wish.sent(body[:first])
    _check(sent)  # before the work is done that grows with it
    result = wish.made(sent, now)
    _check(result)  # a patch may make much of little
    return result


def _check(value: Any) -> None:
    """Raise Problem if the object has too many values."""
    try:
        check_values(value)
    except InvalidInput as error:
        raise bad(f"{error.field or 'the object'}: {error.message}") from error


# --- errors -----------------------------------------------------------------------------------


def said_of_text_error(error: TextError) -> Json:
    return {
        "message": error.message,
        "field": error.field,
        "line": error.line,
        "column": error.column,
    }


def text_error(fields: Json) -> TextError:
    """Rebuild a TextError. The wrong value is not sent along, as it may be large."""
    message = fields.pop("message")
    return TextError(message, **fields)


def said_of_problem(problem: Problem) -> Json:
    return {
        "status": int(problem.status),
        "reason": problem.reason,
        "message": problem.message,
        "kind": problem.kind,
        "group": problem.group,
        "name": problem.name,
        "causes": [[cause.field, cause.message, cause.reason] for cause in problem.causes],
    }


def problem(fields: Json) -> Problem:
    return Problem(
        HTTPStatus(fields["status"]),
        fields["message"],
        reason=fields["reason"],
        kind=fields["kind"],
        group=fields["group"],
        name=fields["name"],
        causes=tuple(Cause(*cause) for cause in fields["causes"]),
    )
