"""Volcano's scenarios, which are a reference beside the checkout; without them these tests skip."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest


@functools.cache
def scenarios(folder: Path) -> dict[str, dict[str, Any]]:
    """Scenario by id, in the files' order. Raises ValueError where an id stands twice."""
    by_id: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.json")):
        for scenario in json.loads(file.read_text("utf-8")):
            if scenario["id"] in by_id:
                raise ValueError(f"{file.name}: {scenario['id']} is in the files twice")
            by_id[scenario["id"]] = scenario
    return by_id


@pytest.fixture
def volcano(shared_reference: Path) -> dict[str, dict[str, Any]]:
    folder = shared_reference / "conformance" / "volcano"
    if not folder.is_dir():
        pytest.skip("Volcano's scenarios are not beside this checkout")
    return scenarios(folder)
