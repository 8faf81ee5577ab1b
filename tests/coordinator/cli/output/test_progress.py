"""Display of a status by the progress line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coordinator.cli.output.progress import Rate, RunProgress, line, moment_of, picture

STATUS = {
    "jobs": {"submitted": 9, "finished": 3, "running": 2, "pending": 4},
    "tasks": {"bound": 1234, "running": 50},
    "statements": {"conflicts_true": 2, "conflicts_read": 1},
    "shards": [{"shard": 0, "up": True}, {"shard": 1, "up": False}],
}


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.add(0.0, 0) == 0.0
    assert rate.add(1.0, 100) == 100.0
    for second in range(2, 10):
        rate.add(float(second), 100 + 10 * (second - 1))
    assert rate.add(10.0, 190) == pytest.approx(10.0)
    assert len(rate.samples) <= 4


def test_a_moment_out_of_a_status() -> None:
    moment = moment_of(STATUS, seconds=1.0, expected=10, capacity=200, rate=5.0)
    assert (moment.finished, moment.running, moment.pending) == (3, 2, 4)
    assert moment.busy == 0.25
    assert moment.conflicts == 3
    assert (moment.shards_up, moment.shards) == (1, 2)


def test_an_empty_status_is_a_moment_too() -> None:
    moment = moment_of({}, seconds=0.0, expected=0, capacity=0, rate=0.0)
    assert moment.busy == 0.0
    assert "0 finished" in line(moment, "GPUs")


@pytest.mark.parametrize("terminal", [False, True])
def test_both_displays_show_the_numbers(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    moment = moment_of(STATUS, seconds=1.0, expected=10, capacity=200, rate=5.0)
    with RunProgress(console, unit="CPUs") as progress:
        progress.phase("Loading")
        progress.show(moment)
        progress.show(moment)
        progress.warn("3 [lines] left out")
    text = out.getvalue()
    assert "Loading" in text
    assert "CPUs" in text
    assert "3 [lines] left out" in text
    if not terminal:
        assert text.count("3 finished") == 1  # a line now and then, not for each moment
    console.print(picture(moment, "CPUs"))
    assert "1,234 bound" in out.getvalue()
