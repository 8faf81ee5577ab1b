"""The scenarios that a script has to stand, and a server to play them on with altered scripts."""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import redis

from shared.ledger.redis import calls
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.coordinator.ledger_audit import test_recount
from tests.shared.ledger import (
    test_accounts,
    test_adopt,
    test_best_effort,
    test_devices,
    test_eviction_guards,
    test_evictions,
    test_forgetting,
    test_leases,
    test_moves,
    test_restarts,
    test_things,
    test_verdicts,
    test_window,
)
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.mutations import test_by_example
from tests.shared.ledger.mutations.scripts import Scripts
from tests.shared.ledger.support import Desk, cluster

MODULES: tuple[ModuleType, ...] = (
    test_verdicts,
    test_by_example,
    test_window,
    test_leases,
    test_accounts,
    test_adopt,
    test_forgetting,
    test_eviction_guards,
    test_evictions,
    test_best_effort,
    test_moves,
    test_restarts,
    test_things,
    test_devices,
    test_recount,
)
TOO_LONG = ("5000", "10_to_18", "thousands", "empty_seat")
"""Parts of the names of tests that take longer than all others together."""
KNOWN = {"desk", "ledger", "place", "scripts"}
"""Fixtures of scenarios beside their own parameters."""
SECONDS = 2.0
"""After which a script without its checks is taken to run for ever."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    play: Callable[..., Any]
    wants: str
    """The fixture of KNOWN that it uses."""
    arguments: dict[str, Any]


def found_scenarios() -> list[Scenario]:
    """The ledger's own tests by example, with each of their parameters."""
    return [s for module in MODULES for s in _of_module(module)]


def _of_module(module: ModuleType) -> Iterator[Scenario]:
    for name, play in inspect.getmembers(module, inspect.iscoroutinefunction):
        if not name.startswith("test_") or any(part in name for part in TOO_LONG):
            continue
        wants = KNOWN & set(inspect.signature(play).parameters)
        if len(wants) != 1:
            continue
        for number, arguments in enumerate(_parameters(play)):
            yield Scenario(f"{name}-{number}", play, next(iter(wants)), arguments)


def _parameters(play: Callable[..., Any]) -> list[dict[str, Any]]:
    """All that ``pytest.mark.parametrize`` asks for."""
    axes = []
    for mark in getattr(play, "pytestmark", []):
        if mark.name == "parametrize":
            parameter_names = mark.args[0]
            names = (
                parameter_names.split(",") if isinstance(parameter_names, str) else parameter_names
            )
            names = [name.strip() for name in names]
            axes.append([_named(names, value) for value in mark.args[1]])
    chosen = itertools.product(*axes)
    return [{k: v for values in one for k, v in values.items()} for one in chosen]


def _named(names: list[str], value: Any) -> dict[str, Any]:
    values = getattr(value, "values", value)  # of a pytest.param
    return {names[0]: value} if len(names) == 1 else dict(zip(names, values, strict=True))


@contextmanager
def altered(part: str, text: str) -> Iterator[None]:
    """All scripts that contain this part are sent with another text of it."""
    original = calls.script

    def script(name: str) -> tuple[bytes, str]:
        if part not in calls.PARTS[name]:
            return original(name)
        files = ((p, calls.SCRIPTS / f"{p}.lua") for p in calls.PARTS[name])
        texts = (text if p == part else path.read_text() for p, path in files)
        whole = "".join(texts).encode()
        return whole, hashlib.sha1(whole, usedforsecurity=False).hexdigest()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "script", script)
        yield


@asynccontextmanager
async def _asked_for(wants: str, server: EmbeddedServer) -> AsyncIterator[Any]:
    flush(server)
    clock = None if wants == "place" else lambda: NOW
    ledger = RedisLedger(server.url, timeout=SECONDS, clock=clock)
    try:
        match wants:
            case "place":
                await ledger.open()
                yield test_leases.LeaseLedger(
                    Desk(ledger), lambda s: test_leases._move_leases(server, s)
                )
            case "ledger":
                yield ledger
            case _:
                desk = await Desk(ledger).open("1")
                await desk.store(*cluster())
                yield Scripts(desk, ledger) if wants == "scripts" else desk
    finally:
        await ledger.close()


def settle(server: EmbeddedServer) -> None:
    """A script that runs for ever is ended; with it the server, where it has written already."""
    with redis.Redis.from_url(server.url, protocol=2, socket_timeout=SECONDS) as client:
        try:
            client.ping()
        except redis.exceptions.RedisError:
            try:
                client.script_kill()
            except redis.exceptions.RedisError:
                server.stop()
                server.start()


async def play(scenario: Scenario, server: EmbeddedServer) -> None:
    """Raises whatever it raises where the scenario does not come out as it should."""
    async with _asked_for(scenario.wants, server) as fixture:
        await scenario.play(**{scenario.wants: fixture}, **scenario.arguments)
