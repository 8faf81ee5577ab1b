from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.coordinator.api.write.behind import Client, behind


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    async with behind() as made:
        yield made
