"""Fixtures of the intake tests."""

from __future__ import annotations

import pytest

from tests.coordinator.intake.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
