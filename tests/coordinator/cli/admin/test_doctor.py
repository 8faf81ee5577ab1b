"""``quadrant doctor``: each check can pass, can fail, and says what to do then."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from coordinator.cli.admin import doctor_checks
from coordinator.cli.admin.doctor import (
    CheckEnded,
    DoctorCheck,
    DoctorFinding,
    DoctorPlace,
    DoctorVerdict,
    DoctorWarning,
    Failed,
    Skipped,
    examine,
)
from coordinator.cli.admin.doctor_checks import CHECKS, allowed, available_memory, locked
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.settings import load_settings


def place(short_dir: Path, **settings: Any) -> DoctorPlace:
    return DoctorPlace(load_settings(run_dir=short_dir, **settings))


def run(name: str, where: DoctorPlace) -> str:
    return next(check for check in CHECKS if check.name == name).run(where)


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "laboratory.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **environment},
    )


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.alone
def test_a_good_machine(short_dir: Path) -> None:
    done = doctor("-o", "json", QUADRANT_RUN_DIR=str(short_dir))
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout)
    assert body["ok"]
    assert [check["name"] for check in body["checks"]] == [check.name for check in CHECKS]
    assert {check["verdict"] for check in body["checks"]} <= {"ok", "warn", "skipped"}
    assert list(short_dir.iterdir()) == []


@pytest.mark.slow
@pytest.mark.all
def test_a_wrong_setting_fails_and_is_named(short_dir: Path) -> None:
    done = doctor(QUADRANT_SHRADS="3")
    assert done.returncode == 1
    assert "did you mean QUADRANT_SHARDS?" in done.stdout
    assert "Remedy: correct or unset what is named" in done.stdout
    assert "skipped" in done.stdout
    assert f"1 of {len(CHECKS)} checks failed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


# --- the frame ------------------------------------------------------------------------------------


def examined(check: Any, seconds: float = 5.0) -> DoctorFinding:
    (finding,) = examine([DoctorCheck("one", check, seconds)], DoctorPlace(None))
    return finding


@pytest.mark.parametrize(
    ("error", "verdict", "remedy"),
    [
        (Failed("broken", "mend it"), DoctorVerdict.FAIL, "mend it"),
        (DoctorWarning("slow", "wait"), DoctorVerdict.WARN, "wait"),
        (Skipped("not asked"), DoctorVerdict.SKIPPED, ""),
        (RuntimeError("what"), DoctorVerdict.FAIL, "follow the message"),
    ],
)
def test_an_exception_in_a_check_is_its_finding(
    error: Exception, verdict: DoctorVerdict, remedy: str
) -> None:
    def check(_: DoctorPlace) -> str:
        raise error

    finding = examined(check)
    assert finding.verdict is verdict
    assert finding.remedy.startswith(remedy)


def test_a_check_that_hangs_is_told_and_holds_up_nobody() -> None:
    go_on = threading.Event()

    def hang(_: DoctorPlace) -> str:
        go_on.wait(100.0)
        return ""

    started = time.monotonic()
    checks = [
        DoctorCheck("slow", hang, 0.2),
        DoctorCheck("slow too", hang, 0.2),
        DoctorCheck("quick", lambda _: "x"),
    ]
    findings = examine(checks, DoctorPlace(None))
    go_on.set()
    assert [f.verdict for f in findings] == [
        DoctorVerdict.FAIL,
        DoctorVerdict.FAIL,
        DoctorVerdict.OK,
    ]
    assert "no answer within 0.2 s" in findings[0].found
    assert time.monotonic() - started < 60.0


# --- the checks -----------------------------------------------------------------------------------


def check_end(name: str, where: DoctorPlace) -> CheckEnded:
    with pytest.raises(CheckEnded) as caught:
        run(name, where)
    assert isinstance(caught.value, Skipped) or caught.value.remedy
    return caught.value


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("python", DoctorPlace(None)).startswith("Python 3.")
    monkeypatch.setattr(doctor_checks, "PYTHON", (4, 0))
    assert "install Python 4.0" in check_end("python", DoctorPlace(None)).remedy


def test_policy(short_dir: Path) -> None:
    assert run("policy", place(short_dir)) == "the default policy"
    file = short_dir / "p.yaml"
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    assert "is valid" in run("policy", place(short_dir, policy=file))
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: gnag}]}]\n")
    wrong = check_end("policy", place(short_dir, policy=file))
    assert "gnag" in wrong.found
    assert wrong.remedy.endswith(f"quadrant config check {file}")
    policy = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
    file.write_text(policy + "metrics: {address: p}\n")
    assert "metrics.address" in check_end("policy", place(short_dir, policy=file)).found


def test_run_dir(short_dir: Path) -> None:
    assert "can be written" in run("run_dir", place(short_dir / "new" / "deep"))
    assert not (short_dir / "new").exists()
    (short_dir / "file").touch()
    assert "is not a directory" in check_end("run_dir", place(short_dir / "file")).found
    short_dir.chmod(0o755)
    assert f"chmod go= {short_dir}" in check_end("run_dir", place(short_dir)).remedy


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc here")
def test_a_run_dir_that_cannot_be_written() -> None:
    assert "QUADRANT_RUN_DIR" in check_end("run_dir", place(Path("/proc/quadrant"))).remedy


def test_socket_path(short_dir: Path) -> None:
    assert "of 107 bytes" in run("socket_path", place(short_dir))
    assert isinstance(check_end("socket_path", place(short_dir / ("d" * 100))), DoctorWarning)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_disk(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "free at" in run("disk", place(short_dir))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 1 << 40, 1 << 20))
    assert "1 MiB free" in check_end("disk", place(short_dir)).found


def test_fsync(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "FSYNC_SECONDS", 60.0)
    assert "ms at" in run("fsync", place(short_dir))
    monkeypatch.setattr(doctor_checks, "FSYNC_SECONDS", 0.0)
    assert "faster disk" in check_end("fsync", place(short_dir)).remedy


def test_memory(tmp_path: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert available_memory(tmp_path) is None
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4096 kB\n")
    assert available_memory(tmp_path) == 4 << 20
    (tmp_path / "sys/fs/cgroup/memory.current").write_text(f"{1 << 20}\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert available_memory(tmp_path) == 4 << 20
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{3 << 20}\n")
    assert available_memory(tmp_path) == 2 << 20
    monkeypatch.setattr(doctor_checks, "available_memory", lambda: 2 << 20)
    assert "QUADRANT_SHARDS" in check_end("memory", place(short_dir)).remedy


def test_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 2048))
    assert check_end("files", DoctorPlace(None)).remedy == "ulimit -n 2048"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 2048))
    assert run("files", DoctorPlace(None)) == "no limit"


def test_port(short_dir: Path) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        number = used.getsockname()[1]
        assert "--listen" in check_end("port", place(short_dir, listen_port=number)).remedy
    assert run("port", place(short_dir, listen_port=number)).endswith("is free")
    assert run("port", place(short_dir)) == "any free port will be taken"
    assert "192.0.2.1" in check_end("port", place(short_dir, listen_host="192.0.2.1")).found


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.all
def test_the_port_that_up_would_take(short_dir: Path) -> None:
    """The default port is 8080 for `up`, not any that is free."""
    body = json.loads(doctor("-o", "json", QUADRANT_RUN_DIR=str(short_dir)).stdout)
    results = {check["name"]: check["found"] for check in body["checks"]}
    assert ":8080" in results["port"]


def test_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("clock", DoctorPlace(None)).endswith("Z")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    apart = re.search(r"is (\S+) s apart", check_end("clock", DoctorPlace(None)).found)
    assert apart and -3700 < float(apart[1]) <= -3600
    standing = now()
    monkeypatch.setattr(time, "time", lambda: standing)
    moved = re.search(r"it moved (\S+) s", check_end("clock", DoctorPlace(None)).found)
    assert moved and float(moved[1]) <= -0.2
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert "1970-01-01" in check_end("clock", DoctorPlace(None)).found


def test_time_that_passes_between_two_reads_is_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = time.time, iter([0.1])

    def read_and_pause() -> float:
        read = now()
        time.sleep(next(pauses, 0.0))
        return read

    monkeypatch.setattr(time, "time", read_and_pause)
    assert run("clock", DoctorPlace(None)).endswith("Z")


def test_embedded_ledger(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the embedded server answers" in run("ledger", place(short_dir))
    monkeypatch.setattr("shared.ledger.redis.server.find_binary", lambda **_: Path("/bin/false"))
    assert "pip install" in check_end("ledger", place(short_dir)).remedy


def test_a_ledger_elsewhere(short_dir: Path, embedded_server: EmbeddedServer) -> None:
    shared = place(short_dir, redis_url=embedded_server.url, fsync="no")
    assert "append-only" in run("ledger", shared)
    server = EmbeddedServer(short_dir, short_dir / "data", "word")
    server.start()
    try:
        right = place(short_dir, redis_url=server.url, redis_password="word")
        assert "append-only" in run("ledger", right)
        wrong = check_end("ledger", place(short_dir, redis_url=server.url, redis_password="wrong"))
        assert "QUADRANT_REDIS_PASSWORD" in wrong.remedy
    finally:
        server.stop()
    nowhere = place(short_dir, redis_url="redis://127.0.0.1:1", redis_password="word")
    gone = check_end("ledger", nowhere)
    assert "word" not in gone.found
    assert "redis://127.0.0.1:1" in gone.found


def test_an_external_ledger_that_loses_acknowledged_writes(short_dir: Path) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    where = place(short_dir, redis_url=server.url)
    try:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            assert "before it answers" in run("ledger", where)
            client.config_set("appendfsync", "everysec")
            loose = check_end("ledger", where)
            assert isinstance(loose, DoctorWarning)
            assert "about the last second before a power failure" in loose.found
            assert "QUADRANT_FSYNC=everysec" in loose.remedy
            as_told = place(short_dir, redis_url=server.url, fsync="everysec")
            assert "every second" in run("ledger", as_told)
            client.config_set("appendfsync", "always")
            client.config_set("maxmemory", 1 << 30)
            assert "before it answers" in run("ledger", where)
            client.config_set("maxmemory-policy", "allkeys-lru")
            assert "set maxmemory-policy noeviction" in check_end("ledger", where).remedy
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", client.info("memory")["used_memory"] + 1000)
            assert "when that is full it refuses to write" in check_end("ledger", where).found
            client.config_set("maxmemory", 0)
            client.config_set("appendonly", "no")
            assert "dies with it" in check_end("ledger", where).found
            client.config_set("appendonly", "yes")
            client.replicaof("127.0.0.1", 1)
            assert "copy of another server" in check_end("ledger", where).found
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("version", "expected", "fits"),
    [
        ("2.60.0", ">=2.60,<2.61", True),
        ("2.60.3", "<2.61,>=2.60", True),
        ("2.61.0", ">=2.60,<2.61", False),
        ("2.9.0", ">=2.60,<2.61", False),
        ("3.0", "==3.0", True),
        ("3.1", "==3.0", False),
        ("3.1", "", True),
    ],
)
def test_versions_are_compared_by_number(version: str, expected: str, fits: bool) -> None:
    assert allowed(version, expected) is fits


def test_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    assert locked("ray")
    assert locked("no-such-package") == ""
    monkeypatch.setattr(doctor_checks, "locked", lambda _: ">=9.0")
    assert check_end("ray", DoctorPlace(None)).remedy == "install it: pip install 'ray>=9.0'"
