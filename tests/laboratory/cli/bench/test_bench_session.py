"""The benchmarks of a session alone: every shape does what it says, on a small cluster."""

from __future__ import annotations

import json

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, Output
from laboratory.cli.bench.bench_options import SESSION_ONLY, BenchOptions, BenchSize
from laboratory.cli.bench.bench_session import run_session_bench
from laboratory.workloads.kai_shapes import SHAPES


def options(
    size: BenchSize, *, nodes: int | None = None, session: bool = True, output: Output = Output.JSON
) -> BenchOptions:
    return BenchOptions(
        size, nodes, None, 1, ModeChoice.SOFT, 0, None, None, output, session=session
    )


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.all
def test_a_shape_comes_out_as_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_session_bench(options(BenchSize(name), nodes=30)) == 0
    rows = json.loads(capsys.readouterr().out)["shapes"]
    assert [row["shape"] for row in rows] == [shape.title for shape in SHAPES[name]]
    for row, shape in zip(rows, SHAPES[name], strict=True):
        assert (row["nodes"], row["placed"]) == (30, shape.placed(30))
        # Nobody goes for jobs that have room; what never succeeds is known without one simulation.
        searched = row["placed"] > 0 and shape.action != "allocate"
        assert (row["evicted"] > 0) == (row["simulated"] > 0) == searched


def test_the_table_tells_figure_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_session_bench(options(BenchSize.CONSOLIDATE, nodes=13, output=Output.TABLE)) == 0
    head, row = capsys.readouterr().out.splitlines()[1:3]
    assert head.split() == ["nodes", "time", "goal", "placed", "evicted", "simulated"]
    assert row.split()[-4:-2] == ["none", "10"]  # no goal for this size


def test_what_has_no_such_form_says_so() -> None:
    with pytest.raises(CommandError, match="basic needs a service"):
        run_session_bench(options(BenchSize.BASIC))
    for size in SESSION_ONLY:
        with pytest.raises(CommandError, match="--session"):
            run_session_bench(options(size, session=False))
