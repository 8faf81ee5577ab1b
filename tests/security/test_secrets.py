"""A whole `quadrant up` with secrets that are easy to find again: they are found nowhere."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.supervisor.child_process import descendants
from coordinator.supervisor.supervisor import SECRET_FILES
from shared.ledger.redis.access import Access
from shared.settings.settings import load_settings
from tests.coordinator.api.auth.files import entry, write_tokens

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COMMAND = [sys.executable, "-m", "laboratory.cli"]
START_SECONDS = 90.0

LISTENING = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 as /proc writes them."""

LEDGER, RAY, TOKEN = (
    "canary-of-redis",
    "canary-of-ray-" + "0123456789abcdef" * 3,
    "qdt_canary-of-api",
)
CANARIES = [secret.encode() for secret in (LEDGER, RAY, TOKEN)]


def test_shown_settings_have_no_secret() -> None:
    settings = load_settings(redis_password=LEDGER, ray_token=RAY)
    text = f"{settings!r} {settings} {settings.access()!r} {Access('unix://x', password=LEDGER)}"
    assert LEDGER not in text
    assert RAY not in text


def ask(*words: str, **variables: str) -> bytes:
    """Output of a command that must succeed."""
    result = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **variables},
    )
    assert result.returncode == 0, result
    return result.stdout + result.stderr


def processes(up: int) -> Iterator[tuple[str, bytes]]:
    """(what, bytes) of what other processes may see of those below ``up``."""
    for pid in descendants(up):
        for name in ("cmdline", "environ"):
            path = Path(f"/proc/{pid}/{name}")
            try:
                yield (
                    f"{path} of {Path(f'/proc/{pid}/comm').read_text().strip()}",
                    path.read_bytes(),
                )
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


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="what is looked at is Linux's /proc")
def test_a_whole_up_tells_no_secret(short_dir: Path) -> None:
    tokens = write_tokens(short_dir / "tokens", entry("canary", "admin", TOKEN))
    run_dir = short_dir / "run"
    secrets = {"QUADRANT_REDIS_PASSWORD": LEDGER, "QUADRANT_RAY_TOKEN": RAY}
    settings = {"QUADRANT_RUN_DIR": str(run_dir), "QUADRANT_TOKENS_FILE": str(tokens)}
    up = subprocess.Popen(
        [*COMMAND, "up", "--shards", "1", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **secrets, **settings, "QUADRANT_LOG_LEVEL": "debug"},
        start_new_session=True,
    )
    try:
        assert up.stdout is not None
        assert select.select([up.stdout], [], [], START_SECONDS)[0], "not up in time"
        url = up.stdout.readline().strip().decode()
        asking = {"QUADRANT_SERVER": url, "QUADRANT_TOKEN": TOKEN}
        manifests = [str(EXAMPLES / name) for name in ("nodes.yaml", "gang.yaml")]
        wait = ("wait", "--for=condition=Ready", "pod/train-0", "--timeout=60s")
        printed = [
            ("apply", ask("apply", "-f", manifests[0], "-f", manifests[1], **asking)),
            ("wait", ask(*wait, **asking)),
            ("get", ask("get", "pods,podgroups,nodes,shards", "-o", "yaml", **asking)),
            ("config", ask("config", "show", "--origin", "-o", "json", **secrets, **settings)),
        ]
        assert places_of_secrets(iter(printed)) == []
        assert places_of_secrets(processes(up.pid)) == []
        assert listening(up.pid), "Ray and the coordinator listen"
        assert listening(up.pid) <= LOOPBACK
        secret_files = {run_dir / name for name in SECRET_FILES.values()}
        assert set(places_of_secrets(files(run_dir))) == {path.name for path in secret_files}
        assert {path.stat().st_mode & 0o777 for path in secret_files} == {0o600}
        assert run_dir.stat().st_mode & 0o077 == 0
    finally:
        up.send_signal(signal.SIGINT)
        out, error = up.communicate(timeout=60)
    assert places_of_secrets(iter([("stdout", out), ("stderr", error)])) == []
    assert places_of_secrets(files(run_dir)) == [], "what was kept for the processes goes with them"
    history = (run_dir / "history.jsonl").read_bytes()
    assert b"train" in history
