"""Empty ledgers for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.ledger.redis.server import EmbeddedServer


@pytest.fixture
def second_ledger(short_dir: Path) -> Iterator[str]:
    server = EmbeddedServer(short_dir, short_dir / "second")
    server.start(30.0)
    yield server.url
    server.stop(10.0)
