"""One `quadrant up`: what it says, where its secrets stand, how each killed process comes back, and
what its end leaves. Its log is at debug, and its secrets are easy to find again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.run.up import KUBECONFIG
from coordinator.supervisor.child_process import descendants
from coordinator.supervisor.supervisor import SECRET_FILES
from shared.ledger.redis.access import Access
from shared.settings.settings import load_settings
from tests.conftest import ROOT
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.cli.interrupting import left_of

EXAMPLES = ROOT / "examples"
COMMAND = (sys.executable, "-m", "laboratory.cli")
START_SECONDS = 100.0
RECOVERY_SECONDS = "120"
"""On a machine that does much else: a Ray head takes ten seconds alone."""
KILLED = ("shard-1", "coordinator", "ledger", "ray", "shard-0")
"""In this order: the last worker is one that was started after all other processes were killed."""

LISTENING = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 as /proc writes them."""

LEDGER, RAY, TOKEN = (
    "canary-of-redis",
    "canary-of-ray-" + "0123456789abcdef" * 3,
    "qdt_canary-of-api",
)
CANARIES = [secret.encode() for secret in (LEDGER, RAY, TOKEN)]
SECRETS = {"QUADRANT_REDIS_PASSWORD": LEDGER, "QUADRANT_RAY_TOKEN": RAY}


@dataclass(slots=True)
class StartedUp:
    """A `quadrant up` of two shards."""

    process: subprocess.Popen[str]
    folder: Path
    environ: dict[str, str]
    url: str = ""

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @property
    def error(self) -> str:
        """Stderr so far."""
        return (self.folder / "stderr").read_text()

    def start(self) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        assert ready, f"not up in time: {self.error}"
        self.url = self.process.stdout.readline().strip()
        self.until_error_has("Ctrl-C stops everything")

    def until_error_has(self, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self.error:
            assert time.monotonic() < deadline, f"nobody says {text!r}"
            time.sleep(0.1)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``quadrant WORDS`` as a user who has the token, beside what `up` tells to export."""
        asking = {"KUBECONFIG": str(self.run_dir / KUBECONFIG), "QUADRANT_TOKEN": TOKEN}
        return subprocess.run(
            [*COMMAND, *words],
            env=self.environ | asking | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def ask(self, *words: str, **variables: str) -> bytes:
        """Output of a command that must succeed."""
        result = self.run(*words, **variables)
        assert result.returncode == 0, result
        return (result.stdout + result.stderr).encode()

    def stop(self) -> str:
        """Interrupt it and its whole group, as Ctrl-C does; the rest of its stdout."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture(scope="module")
def up() -> Iterator[StartedUp]:
    with tempfile.TemporaryDirectory(prefix="qt-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        tokens = write_tokens(folder / "tokens", entry("canary", "admin", TOKEN))
        files = {"QUADRANT_RUN_DIR": str(folder / "run"), "QUADRANT_TOKENS_FILE": str(tokens)}
        environ = {**os.environ, **files, "HOME": path}
        with (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [*COMMAND, "up", "--shards", "2", "--listen", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environ | SECRETS | {"QUADRANT_LOG_LEVEL": "debug"},
                start_new_session=True,
            )
        running = StartedUp(process, folder, environ)
        try:
            running.start()
            for name in ("nodes.yaml", "gang.yaml"):
                running.ask("apply", "-f", str(EXAMPLES / name))
            yield running
        finally:
            if process.poll() is None:
                running.stop()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_it_says_how_to_ask_it(up: StartedUp) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", up.url), up.url
    path = up.run_dir / KUBECONFIG
    assert path.stat().st_mode & 0o777 == 0o600
    assert up.error.splitlines()[0] == f"export KUBECONFIG={path}"
    assert "Next: " in up.error
    assert f"In a browser: {up.url}/ui/" in up.error
    assert up.ask("get", "queues", "-o", "name") == b"queue.scheduling.volcano.sh/default\n"


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="what is looked at is Linux's /proc")
def test_it_tells_no_secret(up: StartedUp) -> None:
    wait = ("wait", "--for=condition=Ready", "pod/train-0", "--timeout=60s")
    printed = [
        ("apply", up.ask("apply", "-f", str(EXAMPLES / "gang.yaml"))),
        ("wait", up.ask(*wait)),
        ("get", up.ask("get", "pods,podgroups,nodes,shards", "-o", "yaml")),
        ("config", up.ask("config", "show", "--origin", "-o", "json", **SECRETS)),
    ]
    assert places_of_secrets(iter(printed)) == []
    assert places_of_secrets(processes(up.process.pid)) == []
    assert listening(up.process.pid), "Ray and the coordinator listen"
    assert listening(up.process.pid) <= LOOPBACK
    secret_files = {up.run_dir / name for name in SECRET_FILES.values()}
    assert set(places_of_secrets(files(up.run_dir))) == {path.name for path in secret_files}
    assert {path.stat().st_mode & 0o777 for path in secret_files} == {0o600}
    assert up.run_dir.stat().st_mode & 0o077 == 0


def test_shown_settings_have_no_secret() -> None:
    settings = load_settings(redis_password=LEDGER, ray_token=RAY)
    text = f"{settings!r} {settings} {settings.access()!r} {Access('unix://x', password=LEDGER)}"
    assert LEDGER not in text
    assert RAY not in text


def processes(up: int) -> Iterator[tuple[str, bytes]]:
    """(what, bytes) of what other processes may see of those below ``up``."""
    for pid in descendants(up):
        for name in ("cmdline", "environ"):
            path = Path(f"/proc/{pid}/{name}")
            try:
                program = Path(f"/proc/{pid}/comm").read_text().strip()
                yield f"{path} of {program}", path.read_bytes()
            except OSError:
                continue  # it has ended meanwhile
    yield "the command line", Path(f"/proc/{up}/cmdline").read_bytes()


def files(path: Path) -> Iterator[tuple[str, bytes]]:
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            if file.is_file() and not file.is_symlink():
                try:
                    yield str(file.relative_to(path)), file.read_bytes()
                except FileNotFoundError:
                    continue  # a temporary one of a process at work


def listening(up: int) -> set[str]:
    """Addresses, as /proc has them, on which a process below ``up`` waits for TCP connections."""
    sockets = set()
    for pid in descendants(up):
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    result = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{up}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENING and f"socket:[{inode}]" in sockets:
                result.add(local.partition(":")[0])
    return result


def places_of_secrets(contents: Iterator[tuple[str, bytes]]) -> list[str]:
    """Where a secret stands."""
    return [what for what, content in contents if any(canary in content for canary in CANARIES)]


# --- kills ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_process_is_killed_and_the_way_back_is_told(up: StartedUp) -> None:
    for name in KILLED:
        result = up.run("chaos", "kill", name, "--seconds", RECOVERY_SECONDS, "-o", "json")
        assert (result.returncode, result.stderr) == (0, ""), (name, result.stderr, result.stdout)
        body: dict[str, Any] = json.loads(result.stdout)
        assert body["missing"] == []
        assert body["check"]["ok"]
        whats = [moment["what"] for moment in body["timeline"]]
        assert whats[0].startswith(f"killed {name} (process ")
        assert any(" noticed" in what for what in whats), whats
        assert any(what.startswith("replacement") for what in whats), whats
        assert any(what.startswith("first commit after: shard-") for what in whats), whats
        # A ledger that comes back within its leader's lease has the same leader.
        assert name == "ledger" or any(what.startswith("lease void: ") for what in whats), whats
        seconds = [moment["seconds"] for moment in body["timeline"]]
        assert seconds == sorted(seconds)
        assert seconds[0] == 0.0
    # It may answer before its keeper, who looks now and then, tells so.
    up.until_error_has("the coordinator process was ended by SIGKILL; it is started again")
    up.until_error_has("the coordinator process is back after")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.all
def test_for_people_the_timeline_comes_before_the_verdict(up: StartedUp) -> None:
    result = up.run("chaos", "kill", "shard-0", "--no-probe", "--seconds", "15")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("   0.000 s  killed shard-0 (process ")
    # Nothing was submitted, so that nothing had to be committed: it says so, and ends with 1.
    assert "         -   not seen in time: first commit after" in lines
    assert lines[-1] == "Every promise was kept."
    assert result.returncode == 1


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_unknown_kill_target_is_refused_with_the_remedy(up: StartedUp, tmp_path: Path) -> None:
    for words, code, text in (
        (["shard-7"], 1, "shard-7: there are 2 shards, shard-0 and so on"),
        (["redis"], 2, "redis: not known; write shard-0 (or another shard), coordinator"),
        (["ray", "--run-dir", str(tmp_path)], 1, "no `quadrant up` of this machine runs in"),
    ):
        result = up.run("chaos", "kill", *words)
        assert (result.returncode, result.stdout) == (code, "")
        assert text in result.stderr
        assert "Traceback" not in result.stderr


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ctrl_c_ends_it_and_takes_its_secrets_away(up: StartedUp) -> None:
    """The last of this file."""
    children = descendants(up.process.pid)
    out = up.stop()
    assert (up.process.returncode, out) == (130, "")
    assert "Traceback" not in up.error
    assert left_of(children) == []
    assert places_of_secrets(iter([("stderr", up.error.encode())])) == []
    assert places_of_secrets(files(up.run_dir)) == [], "they go with the processes that need them"
    history = (up.run_dir / "history.jsonl").read_bytes()
    assert b"train" in history
