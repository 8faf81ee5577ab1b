"""The commands themselves, with every process that belongs to them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

QUADRANT = [sys.executable, "-m", "laboratory.cli"]


def _run(*arguments: str) -> tuple[str, str]:
    result = subprocess.run(
        [*QUADRANT, *arguments], capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def test_a_trace_runs_to_its_end(empty_dir: Path, tmp_path: Path) -> None:
    """Gangs wider than a shard, arrivals in time, a line without a duration."""
    trace = tmp_path / "jobs.csv"
    rows = [f"{i // 4},{200 + i},{(1, 2, 24, 5)[i % 4]},team-{i % 3}" for i in range(40)]
    trace.write_text("\n".join(["submit,duration,gpus,queue", *rows, "1,,3,team-0"]) + "\n")
    history = tmp_path / "history.jsonl"
    arguments = ["--nodes", "4", "--shards", "2", "--speedup", "2000", "-o", "json"]
    out, err = _run("demo", "--trace", str(trace), "--history", str(history), *arguments)
    values = orjson.loads(out.splitlines()[-1])
    assert values["jobs"] == {"submitted": 40, "finished": 40, "pending": 0}
    assert values["tasks"] == {"submitted": 320, "bound": 320, "bound_twice": 0, "finished": 320}
    assert values["gangs_partly_bound"] == 0
    assert values["gangs_across_shards"] >= 10  # a shard has 16 GPUs
    assert values["pending_reasons"] == {}
    assert "1 rows of the trace were left out: no duration" in err
    assert "GPUs" in err
    assert "busy" in err
    _run("chaos", "check", "--closed", str(history))


@pytest.mark.all
def test_jobs_that_can_never_run_end_the_run_with_their_reason_and_its_history(
    service: Path, short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short_dir))
    trace = tmp_path / "jobs.csv"
    trace.write_text("submit,duration,gpus\n0,1,1\n0,1,9\n")
    result = subprocess.run(
        [*QUADRANT, "demo", "--trace", str(trace), "--nodes", "1", "--shards", "1", "--backlog"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 1
    assert "1 jobs are wider than the 8 GPUs" in result.stderr
    assert "1 jobs did not finish" in result.stderr
    assert "Nothing moved any more" in result.stderr
    assert "no reason is known" not in result.stderr
    (directory,) = short_dir.iterdir()
    assert f"The history is kept: {directory}/history.jsonl" in result.stdout + result.stderr


@pytest.mark.all
def test_a_bench_of_a_few_tasks(empty_dir: Path) -> None:
    out, _ = _run("bench", "basic", "--nodes", "20", "--pods", "100", "--shards", "2", "-o", "json")
    values = orjson.loads(out.splitlines()[-1])
    assert values["faults"] == []
    for workload in ("separate pods", "one Job"):
        part = values["workloads"][workload]
        assert part["tasks"] == 100
        assert part["tasks_per_second"] > 0
        assert sum(part["cpu_us_per_task"].values()) > 0


@pytest.mark.all
def test_a_bench_of_a_small_reclaim(empty_dir: Path) -> None:
    """Through two shards: the gang has its half, and nobody else left."""
    out, _ = _run("bench", "reclaim", "--nodes", "8", "--shards", "2", "-o", "json")
    values = orjson.loads(out.splitlines()[-1])
    ((_, gang),) = values["workloads"].items()
    assert (values["faults"], gang["evicted"], gang["tasks"]) == ([], 32, 4)
    assert gang["seconds"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.all
def test_an_interrupt_stops_everything(empty_dir: Path, number: signal.Signals) -> None:
    arguments = ["demo", "--jobs", "20", "--nodes", "10", "--shards", "1"]
    process = subprocess.Popen(
        [*QUADRANT, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        until = time.monotonic() + 100
        while "Submitting" not in process.stderr.readline():
            assert time.monotonic() < until
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert rest.endswith("Interrupted; all processes are stopped\n")
