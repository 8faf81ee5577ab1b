"""The benchmarks of a session alone: every shape does what it says, on a small cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.sessions import time_session
from tests.bench.shapes import SHAPES, SessionShape

EVERY = [
    pytest.param(shape, id=f"{name}: {shape.title}")
    for name, shapes in SHAPES.items()
    for shape in shapes
]


@pytest.mark.all
@pytest.mark.parametrize("shape", EVERY)
def test_a_shape_comes_out_as_it_says(shape: SessionShape) -> None:
    measured = time_session(shape, 30)
    assert measured.placed == shape.placed(30)
    # Nobody goes for jobs that have room; what never succeeds is known without one simulation.
    searched = measured.placed > 0 and shape.action != "allocate"
    assert (measured.evicted > 0) == (measured.simulated > 0) == searched


def test_the_command_tells_figure_and_goal() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.bench", "consolidate", "--nodes", "13"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.startswith("gangs of ten whole nodes, 13 nodes, no goal: seconds ")
    assert "placed 10, evicted " in result.stdout
