"""A client of the real server, which is emptied afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from shared.ledger.redis.server import EmbeddedServer


@pytest.fixture
def client(embedded_server: EmbeddedServer) -> Iterator[Any]:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as found:
        yield found
        found.flushall()
