"""Long commands end at Ctrl-C, at once, with 130 and a line, and leave no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.objects import a_list, container, node, pod
from tests.coordinator.cli.interrupting import children_work, interrupt, shards_work, works
from tests.examples import first_of


@pytest.mark.all
def test_scaling_ends_with_its_processes(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    lines = [f"{number},{50 + number % 40},{1 + number % 8}" for number in range(20_000)]
    trace.write_text("\n".join(["submit,duration,gpus", *lines]))
    command = ["scaling", str(trace), "--jobs", "20000", "--processes", "2", "--seeds", "5"]
    interrupt(command, when=children_work)


@pytest.mark.parametrize(
    "command",
    first_of(
        ["replay {dump} --shards 4", "chaos model --thorough", "replay {dump} --cycles 10000"]
    ),
)
def test_a_command_without_services_ends_at_ctrl_c(large_dump: Path, command: str) -> None:
    interrupt(command.format(dump=large_dump).split(), when=works)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "command",
    [
        "bench basic --shards 2",
        # These are stopped by the same code as `bench basic`; an interrupt of `demo` is in
        # `tests/end_to_end/real_processes`, as is one of `up`.
        *(
            pytest.param(command, marks=pytest.mark.thorough)
            for command in (
                "bench reclaim --nodes 400 --shards 2",
                "bench fill --nodes 100 --pods 800",
            )
        ),
        "chaos run --duration 600 --shards 2",
    ],
)
@pytest.mark.all
def test_a_command_with_a_service_ends_at_ctrl_c_together_with_it(
    command: str, short_dir: Path
) -> None:
    interrupt(command.split(), when=shards_work, run_dir=short_dir)


def test_a_ctrl_c_that_compiled_code_dropped_is_not_lost() -> None:
    """Python drops what a finalizer raises as it does what a callback of pydantic's core raises."""
    program = """
import time
from laboratory.cli import app

class Dropping:
    def __del__(self):
        raise KeyboardInterrupt

def command(*arguments, **options):
    Dropping()
    for _ in range(600):
        time.sleep(0.1)

app.app = command
app.main()
"""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert result.returncode == 130, result.stderr
    assert result.stderr == ""


# --- a cluster whose decision takes long ----------------------------------------------------------


@pytest.fixture(scope="module")
def large_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose decision takes many seconds."""
    path = tmp_path_factory.mktemp("dump") / "cluster.json"
    path.write_text(json.dumps(a_list(*_objects())))
    return path


def _objects() -> Iterator[dict[str, object]]:
    for number in range(400):
        yield node(f"n{number}", cpu=64, memory="256Gi")
    for number in range(4000):
        requested = container(f"{100 + number % 700}m", "")  # few of a kind: each is judged alone
        yield pod(f"p{number}", namespace="default", containers=[requested])
