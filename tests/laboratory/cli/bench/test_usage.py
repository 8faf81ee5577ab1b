"""The command line: usage errors, errors in files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.cli.options.failure import CommandError
from laboratory.cli.demo import demo_run
from laboratory.cli.demo.demo_options import DemoOptions
from laboratory.cli.stack import workspace
from laboratory.local_kubernetes.authority import Authority
from tests.coordinator.cli.conftest import Quadrant

HEAVY = ("ray", "numpy", "aiohttp", "redis", "pydantic_settings")


def test_a_policy_is_checked_without_the_runtime_packages(tmp_path: Path) -> None:
    """NumPy is what plugins compute with: they are asked only where the file reads well."""
    file = tmp_path / "policy.yaml"
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    result = _loads(["config", "check", str(file)], [m for m in HEAVY if m != "numpy"])
    assert result.returncode == 0, result.stderr
    assert "valid" in result.stdout
    file.write_text("actions: sing\n")
    result = _loads(["config", "check", str(file)], HEAVY)
    assert result.returncode == 0, result.stderr
    assert "sing" in result.stderr


def _loads(arguments: list[str], forbidden: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the command; the exit code is 0 where it loaded none of these modules."""
    code = (
        "import sys\n"
        "from laboratory.cli.app import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        f"loaded = [m for m in {forbidden!r} if m in sys.modules]\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_shows_every_command_and_where_to_start(quadrant: Quadrant) -> None:
    text = quadrant("--help").out
    for command in ("demo", "up", "bench", "chaos", "config", "doctor", "replay", "version"):
        assert command in text
    assert "quadrant demo" in text
    assert "check" in quadrant("chaos", "--help").out


def test_version(quadrant: Quadrant) -> None:
    assert quadrant("version").out.startswith("quadrant ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--gpus-per-node", "8", "--cpus-per-node", "8"],
        ["demo", "--columns", "gpus=n"],
        ["demo", "--mode", "round"],
        ["demo", "--nodes", "0"],
        ["demo", "--nodes", "99999999999999999999"],
        ["bench", "basic", "--pods", "99999999999999999999"],
        ["scaling", __file__, "--gpus-per-node", "100000000000000000"],
        ["scaling", __file__, "--nodes", "99999999999999999999"],
        ["demo", "--speedup", "0"],
        ["demo", "--trace", "there-is-no-such-file.csv"],
        ["demo", "--no-such-option"],
        ["bench", "tiny"],
        ["bench"],
        ["up", "--listen", "8080"],
        ["dmeo"],
    ],
)
def test_wrong_usage_ends_with_2(quadrant: Quadrant, arguments: list[str]) -> None:
    result = quadrant(*arguments)
    assert result.code == 2
    assert result.err.strip()


def test_a_wrong_column_is_told_in_one_sentence(quadrant: Quadrant, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("when,secs,gpus\n1,2,3\n")
    code, out, error = quadrant(
        "demo", "--trace", str(path), "--columns", "submit=wen,duration=secs,gpus=gpus"
    )
    assert (code, out) == (1, "")
    last = error.splitlines()[-1]
    assert last.startswith("Error: jobs.csv: there is no column 'wen' for submit")
    assert "did you mean 'when'" in error
    assert "when, secs, gpus" in error


def test_a_history_that_exists_is_not_overwritten(quadrant: Quadrant, tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("{}\n")
    result = quadrant("demo", "--history", str(path))
    assert result.code == 1
    assert "--history" in result.err
    assert path.read_text() == "{}\n"


def test_a_wrong_setting_is_told_by_its_variable(
    quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_WINDWO", "3")
    result = quadrant("demo", "--jobs", "1")
    assert result.code == 1
    assert "QUADRANT_WINDWO" in result.err
    assert "QUADRANT_WINDOW" in result.err


def test_broken_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m coordinator.cli --help | true"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in result.stderr


def test_swf_traces_take_cpus_unless_something_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from laboratory.cli.app import app

    path = tmp_path / "t.swf"
    path.write_text(";\n")
    observed: list[tuple[bool, int]] = []

    def run(options: DemoOptions) -> int:
        observed.append((options.cpus, options.units))
        return 0

    monkeypatch.setattr(demo_run, "run_demo", run)
    for more in ([], ["--gpus-per-node", "4"], ["--cpus-per-node", "16"]):
        assert CliRunner().invoke(app, ["demo", "--trace", str(path), *more]).exit_code == 0
    assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    assert observed == [(True, 2), (False, 4), (True, 16), (False, 8)]


def test_the_exit_code_of_the_run_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from laboratory.cli.app import app

    monkeypatch.setattr(demo_run, "run_demo", lambda options: 1)
    assert CliRunner().invoke(app, ["demo"]).exit_code == 1

    def fail(options: DemoOptions) -> int:
        raise CommandError("no")

    monkeypatch.setattr(demo_run, "run_demo", fail)
    assert isinstance(CliRunner().invoke(app, ["demo"]).exception, CommandError)


def test_a_run_that_fails_keeps_its_logs_and_tells_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(CommandError, match="it broke\nLogs of all processes: ") as error,
        workspace(history=None) as space,
    ):
        raise CommandError("it broke", code=3)
    assert error.value.code == 3
    assert space.settings.run_dir.is_dir()
    assert str(error.value).endswith(str(space.settings.run_dir))
    with workspace(history=None) as space:
        pass
    assert not space.settings.run_dir.exists()


def test_a_run_of_its_own_needs_neither_tokens_nor_certificates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tokens and certificates in the settings are for a service; this command would trust
    neither."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("quadrant", address="127.0.0.1")
    monkeypatch.setenv("QUADRANT_TLS_CERT_FILE", str(certificate))
    monkeypatch.setenv("QUADRANT_TLS_KEY_FILE", str(key))
    monkeypatch.setenv("QUADRANT_TOKENS_FILE", str(tmp_path / "tokens"))
    with workspace(history=None) as space:
        assert space.settings.scheme == "http"
        assert space.settings.tokens_file is None
