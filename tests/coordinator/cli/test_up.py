"""``quadrant up``: where it listens, what it writes and says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.cli.run import exit_code
from coordinator.cli.run.up import DEFAULT_PORT, reachable
from tests.coordinator.cli.conftest import Quadrant


@pytest.mark.parametrize("words", [["--listen", "{}"], []])
def test_a_port_that_is_taken_is_told_with_the_remedy(
    quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("QUADRANT_LISTEN_PORT", str(port))
        result = quadrant("up", *(word.format(f"127.0.0.1:{port}") for word in words))
    assert (result.code, result.out) == (1, "")
    assert f"--listen 127.0.0.1:{port}: Address already in use" in result.err
    assert "127.0.0.1:0" in result.err


def test_an_address_of_nobody_is_told(
    quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    result = quadrant("token", "new", "--name", "me", "--role", "view", "--file", str(tokens))
    assert result.code == 0
    monkeypatch.setenv("QUADRANT_TOKENS_FILE", str(tokens))
    output = quadrant("up", "--listen", "no-such-host.invalid:1")
    assert output.code == 1
    assert "name an address of this machine" in output.err


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        ([], {}, DEFAULT_PORT),
        ([], {"QUADRANT_LISTEN_PORT": "0"}, 0),
        ([], {"QUADRANT_LISTEN_PORT": "18080"}, 18080),
        (["--listen", "127.0.0.1:0"], {"QUADRANT_LISTEN_PORT": "18080"}, 0),
    ],
)
def test_the_port(
    quadrant: Quadrant,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environ: dict[str, str],
    expected: int,
) -> None:
    """Somewhere else only where somebody said so; nothing is started here."""
    from coordinator.cli.run import up

    ports: list[int] = []
    monkeypatch.setattr(up, "_refuse_if_taken", lambda host, port: ports.append(port))

    def run(main: Callable[[], object]) -> int:
        return 0

    monkeypatch.setattr(exit_code, "run_to_exit_code", run)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert quadrant("up", *words).code == 0
    assert ports == [expected]


def test_a_bad_policy_is_told_before_anything_starts(
    quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unless one was taken up before: that counts, as in a coordinator that is started anew."""
    from shared.policy.file import ACCEPTED_FILE

    run_dir = tmp_path / "run"
    monkeypatch.setenv("QUADRANT_RUN_DIR", str(run_dir))
    policy = tmp_path / "policy.yaml"
    policy.write_text("actions: alocate\n")
    words = ("up", "--listen", "127.0.0.1:0", "--policy", str(policy))
    result = quadrant(*words)
    assert result.code == 1
    assert "did you mean 'allocate'" in result.err
    assert not run_dir.exists()
    run_dir.mkdir()
    (run_dir / ACCEPTED_FILE).write_text("{}")

    def run(main: Callable[[], object]) -> int:
        return 0

    monkeypatch.setattr(exit_code, "run_to_exit_code", run)
    result = quadrant(*words)
    assert result.code == 0
    assert "Warning: the last policy that was good counts" in result.err


@contextlib.contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """As a process that was started with this handler: a suite under ``nohup`` ignores SIGHUP."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_terminal_stops_it_as_ctrl_c_does(
    capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    ended = []

    async def serve() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(20)
        finally:
            ended.append(number)
        return 0

    with handled(number, signal.SIG_DFL):
        assert exit_code.run_to_exit_code(serve) == 130
    assert ended == [number]
    assert "all processes are stopped" in capsys.readouterr().err


def test_under_nohup_the_end_of_the_terminal_stops_nothing() -> None:
    async def serve() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return 7

    with handled(signal.SIGHUP, signal.SIG_IGN):
        assert exit_code.run_to_exit_code(serve) == 7


def test_a_client_on_this_machine_reaches_what_listens_everywhere() -> None:
    assert reachable("0.0.0.0") == reachable("127.0.0.1") == "127.0.0.1"
    assert reachable("::") == reachable("::1") == "[::1]"
    assert reachable("quadrant.example") == "quadrant.example"
