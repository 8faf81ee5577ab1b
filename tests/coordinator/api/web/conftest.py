"""One service and one browser for the tests of the page, left out where there is no browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.coordinator.api.web.browser import chromium, launched
from tests.coordinator.api.web.world import ITEMS, RUNNING, HeldShards
from tests.end_to_end.one_process.harness import Running, running, submit

if TYPE_CHECKING:
    from playwright.async_api import Browser

MISSING = "no Chromium; apt-get install chromium-headless-shell, or CHROMIUM=/path/to/it"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    if chromium() is None or find_spec("playwright") is None:
        pytest.skip(MISSING)
    async with launched() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    browser: Browser, embedded_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """A service with everything that the page shows; nothing of it changes by itself."""
    flush(embedded_server)
    path, url = Path(tmp_path_factory.mktemp("w")), embedded_server.url
    async with running(url, path, workers=HeldShards(url)) as service:
        await submit(service, *ITEMS)
        await service.until(
            lambda status: (
                status["tasks"]["running"] == RUNNING
                and not status["open_turns"]
                and sum(status["pending_reasons"].values()) == 2
                and not status["pending_reasons"].keys() & {"WaitingForTurn", "PendingEvaluation"}
            )
        )
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(world: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(world.url) as session:
        yield session
