from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.coordinator.api.write.behind import WriteClient, behind


@pytest_asyncio.fixture
async def client() -> AsyncIterator[WriteClient]:
    async with behind() as write_client:
        yield write_client
