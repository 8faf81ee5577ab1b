"""Processes that read large bodies: the same answers as the loop's own, whatever befalls them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from coordinator.api.change.bodies import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC
from coordinator.api.change.change import Author, ChangeRequest, CurrentObject, Verb
from coordinator.api.parser.pool import Parsers
from coordinator.api.parser.tasks import ParserTask, write_request
from coordinator.errors import Problem, status_body
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import POD
from coordinator.intake.principal import CALLER, Principal, TokenRole
from shared.manifests.text.bounds import OBJECT_VALUES
from shared.manifests.text.errors import TextError
from shared.manifests.text.text import read_objects
from tests.end_to_end.one_process import hostile

AUTHOR = Author("tester", "2026-01-01T00:00:00Z")
LARGE: Any = orjson.loads(hostile.LARGE_POD)
BEFORE = Document(Key("Pod", "default", "large"), orjson.dumps(LARGE), 5.0)
LIVE: Any = LARGE | {"status": {"phase": "Pending"}}
NOW = CurrentObject(BEFORE, LIVE, 7)


@asynccontextmanager
async def parsing(**options: Any) -> AsyncIterator[Parsers]:
    parsers = Parsers(**options)
    try:
        yield parsers
    finally:
        await parsers.close()


def wish(verb: Verb, language: str) -> ChangeRequest:
    name = "" if verb is Verb.CREATE else "large"
    return ChangeRequest(verb, POD, "default", name, language=language, author=AUTHOR)


WRITES = [
    (wish(Verb.CREATE, JSON), hostile.LARGE_POD, CurrentObject(None, None)),
    (
        wish(Verb.CREATE, "application/yaml"),
        hostile.YAML["containers"][:20_000],
        CurrentObject(None, None),
    ),
    (wish(Verb.CREATE, JSON), b'{"kind":"Node"}', CurrentObject(None, None)),
    (wish(Verb.CREATE, JSON), b"{", CurrentObject(None, None)),
    (wish(Verb.CREATE, "text/plain"), hostile.LARGE_POD, CurrentObject(None, None)),
    (wish(Verb.REPLACE, JSON), hostile.LARGE_POD, NOW),
    (wish(Verb.REPLACE, JSON), hostile.LARGE_POD, CurrentObject(None, None)),
    *(
        (wish(Verb.PATCH, kind), body, NOW)
        for kind, body in hostile.SMALL_PATCHES.items()
        if kind in (APPLY, JSON_PATCH, MERGE, STRATEGIC)
    ),
    (wish(Verb.PATCH, JSON_PATCH), b'[{"op":"test","path":"/kind","value":"Node"}]', NOW),
    (wish(Verb.PATCH, MERGE), b'{"metadata":{"name":"other"}}', NOW),
]


async def test_a_write_comes_to_the_same_here_and_there() -> None:
    async with parsing(processes=1) as parsers:
        for question, body, now in WRITES:
            try:
                here: Any = question.made(question.sent(body), now)
            except Problem as problem:
                here = status_body(problem)
            try:
                (there,) = await parsers.ask(*write_request(question, body, now))
            except Problem as problem:
                there = status_body(problem)
            assert there == here
        assert len(parsers.pids) == 1


async def test_objects_come_in_parts_and_in_order() -> None:
    body = hostile.LISTS["pods"]
    async with parsing() as parsers:
        ask = {
            "task": ParserTask.OBJECTS,
            "form": "json",
            "limits": {"size": 1 << 24, "objects": 5000},
        }
        assert await parsers.ask(ask, body) == read_objects(body, form="json")
        ask = {"task": ParserTask.LIST, "limits": {"size": 1 << 24, "objects": 5000}}
        assert await parsers.ask(ask, body) == orjson.loads(body)["items"]


async def test_parser_processes_report_the_same_error_as_the_loop() -> None:
    ask = {"task": ParserTask.OBJECTS, "form": "yaml", "limits": {"size": 1 << 20, "objects": 500}}
    body = b"a: 1\nb: [1, 2\n"
    with pytest.raises(TextError) as here:
        read_objects(body, form="yaml")
    async with parsing() as parsers:
        with pytest.raises(TextError) as there:
            await parsers.ask(ask, body)
        assert str(there.value) == str(here.value)
        with pytest.raises(TextError, match=f"more than {OBJECT_VALUES} values"):
            await parsers.ask(ask, hostile.YAML["long list"][:200_000])
        assert parsers.results == {"refused": 2}


async def test_a_refused_body_is_let_go_without_the_garbage_collector() -> None:
    """It hung on the traceback of its error, in a circle: 350 refusals took 300 MB."""
    ask = {"task": ParserTask.OBJECTS, "form": "yaml", "limits": {"size": 1 << 20, "objects": 500}}
    body = b"a: 1\nb: [1, 2\n" * 2
    async with parsing(processes=1) as parsers:
        await parsers.ask(*SMALL)
        gc.disable()
        try:
            before = sys.getrefcount(body)
            with contextlib.suppress(TextError):
                await parsers.ask(ask, body)
            assert parsers.results["refused"] == 1
            assert sys.getrefcount(body) == before
        finally:
            gc.enable()


SMALL = ({"task": ParserTask.LIST, "limits": {}}, b'{"apiVersion":"v1","kind":"List","items":[{}]}')
SLOW = (
    {"task": ParserTask.OBJECTS, "form": "yaml", "limits": {"size": 1 << 20, "objects": 500}},
    hostile.YAML["nested"],
)


async def test_a_process_that_died_is_replaced() -> None:
    async with parsing(processes=1) as parsers:
        assert await parsers.ask(*SMALL) == [{}]
        (before,) = parsers.pids
        os.kill(before, signal.SIGKILL)
        assert await parsers.ask(*SMALL) == [{}]
        assert parsers.pids != [before]


@pytest.mark.all
async def test_killed_at_work_it_is_asked_once_more() -> None:
    async with parsing(processes=1) as parsers:
        assert await parsers.ask(*SMALL) == [{}]
        (before,) = parsers.pids
        os.kill(before, signal.SIGSTOP)  # so that it cannot answer before it is killed
        asking = asyncio.create_task(parsers.ask(*SLOW))
        await asyncio.sleep(0)
        assert not parsers._idle
        os.kill(before, signal.SIGKILL)
        with pytest.raises(TextError):
            await asking
        assert parsers.results["lost"] == 1


async def test_one_that_is_late_is_killed_and_its_caller_told() -> None:
    async with parsing(processes=1, seconds=0.01) as parsers:
        with pytest.raises(Problem, match="was lost") as caught:
            await parsers.ask(*SLOW)
        assert caught.value.status == 503
        assert parsers.results == {"lost": 2}
        assert parsers.pids == []


@pytest.mark.all
async def test_a_cancelled_request_leaves_no_answer_to_the_next() -> None:
    async with parsing(processes=1) as parsers:
        assert await parsers.ask(*SMALL) == [{}]
        (process,) = parsers.pids
        os.kill(process, signal.SIGSTOP)
        asking = asyncio.create_task(parsers.ask(*SLOW))
        await asyncio.sleep(0)
        assert not parsers._idle
        asking.cancel()
        await asyncio.wait([asking])
        assert await parsers.ask(*SMALL) == [{}]


@pytest.mark.all
async def test_they_end_with_the_service() -> None:
    parsers = Parsers(processes=2)
    running = asyncio.create_task(parsers.run_forever())
    await asyncio.gather(parsers.ask(*SMALL), parsers.ask(*SMALL))
    pids = parsers.pids
    assert len(pids) == 2
    running.cancel()
    await asyncio.wait([running])
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_line_that_is_full_refuses_its_own_tenant_alone() -> None:
    async with parsing(processes=1, waiting=4) as parsers:

        def ask(who: str) -> asyncio.Task[Any]:
            token = CALLER.set(Principal(who, TokenRole.VIEW))
            try:
                return asyncio.create_task(parsers.ask(*SLOW))
            finally:
                CALLER.reset(token)

        flood = [ask("a") for _ in range(6)]
        await asyncio.sleep(0.01)
        other = ask("b")
        result = await asyncio.gather(*flood, return_exceptions=True)
        refused = [one for one in result if isinstance(one, Problem)]
        assert {problem.status for problem in refused} == {429}
        assert len(refused) == 3  # one at work, two wait: half of the room
        with pytest.raises(TextError):
            await other
