"""Fixtures and hooks of all tests."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Set
from math import inf
from pathlib import Path

import pytest
import redis
import structlog
from hypothesis import HealthCheck, settings
from structlog.testing import capture_logs
from structlog.typing import EventDict

from shared.ledger.redis.server import EmbeddedServer
from tests.examples import examples
from tests.surroundings import Home, inherited, set_environment

pytest_plugins = [
    "tests.kubernetes.fixtures",
    "tests.durations",
    "tests.laboratory.service_directories",
]

ROOT = Path(__file__).resolve().parent.parent
_WHOLE_FILE = re.compile(r"^pytestmark = .*\bmark\.all\b", re.MULTILINE)
"""Matches a file of which every test is for ``make test-all`` alone."""
_WRITTEN_MARKERS = frozenset({"slow", "alone", "thorough"})
"""Markers that a file names itself; the marker ``kubernetes`` comes with a fixture."""

# No deadline: these machines are shared, and a slow example is not a wrong one. In CI a run repeats
# exactly; elsewhere Hypothesis looks at new examples each time.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Nothing that is collected goes before the end: to walk it again and again is a tenth of the time.
gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that cannot have a test with a marker that ``-m`` demands, as it is not in
    their text, and those that it leaves out as a whole. To import all files for eleven tests took
    12 s of processor time."""
    if not collection_path.name.startswith("test_"):
        return None
    words = {part.strip() for part in str(config.option.markexpr).split(" and ")}
    named = words & _WRITTEN_MARKERS
    if named and not _all_in(named, collection_path.read_text()):
        return True
    unwanted = "not all" in words and _WHOLE_FILE.search(collection_path.read_text())
    return True if unwanted else None


def _all_in(words: Set[str], text: str) -> bool:
    return all(f"mark.{word}" in text for word in words)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, then those that start Ray: those first that may take longest, so that no
    worker begins a long one while the others have nothing left."""

    def order(item: pytest.Item) -> float:
        timeout = item.get_closest_marker("timeout")
        slow = item.get_closest_marker("slow") is not None
        return -timeout.args[0] if slow and timeout else -1 if slow else -inf

    items.sort(key=order)


def pytest_configure(config: pytest.Config) -> None:
    """Begin in clean surroundings, which what all tests share has too."""
    own = Home()
    config.add_cleanup(own.remove)
    set_environment(inherited(os.environ) | own.environ)
    sys.dont_write_bytecode = False  # to rewrite and compile all tests takes 20 s of processor time


@pytest.fixture(autouse=True)
def home(spare_homes: list[Home]) -> Iterator[Path]:
    """A home, run directory and environment of its own for every test. One to which the test before
    wrote nothing is like a new one: to make and to remove a folder takes longer than most tests."""
    before = dict(os.environ)
    own = spare_homes.pop() if spare_homes else Home()
    os.environ.update(own.environ)
    yield own.path
    set_environment(before)
    if own.is_as_new():
        spare_homes.append(own)
    else:
        own.remove()


@pytest.fixture(scope="session")
def spare_homes() -> Iterator[list[Home]]:
    """Homes that a test left as they were."""
    homes: list[Home] = []
    yield homes
    for one in homes:
        one.remove()


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Undo ``configure_logging``: it is global, and which tests share a process is chance."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    if structlog.is_configured():
        structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def pytest_collection_finish() -> None:
    """Freeze the collected tests: 400,000 objects that no full collection need walk.

    And young ones are walked at every ten thousandth, not at every 700th: collections were a tenth
    of the processor time of all tests."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True)
def _restore_collector() -> Iterator[None]:
    """Undo what processes that serve ask of the collector: it would never again walk all objects,
    and whatever refers to itself, such as a simulated cluster, would stay (7 GB were seen).

    Who freezes sets thresholds too (``shared.garbage_collection``). To count what is frozen takes
    20 ms, as all of it is walked: twice a test that was a quarter of the suite's time.
    """
    thresholds = gc.get_threshold()
    yield
    if gc.get_threshold() != thresholds:
        gc.set_threshold(*thresholds)
        gc.enable()
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # else each full collection of the later tests would walk all of it again


@pytest.fixture
def log_lines() -> Iterator[list[EventDict]]:
    """Lines logged through structlog during the test, as events: at every level, wherever they
    would be written. Not for a test that configures logging itself."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture(scope="session", autouse=True)
def heard_interrupts() -> Iterator[None]:
    """Children hear SIGINT also where a shell runs the tests in its background, ignoring it: a
    child inherits what is ignored, and a ``quadrant up`` that is never stopped stays for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """An empty directory whose path is short enough for unix sockets (``tmp_path`` is not)."""
    path = Path(tempfile.mkdtemp(prefix="qt-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[EmbeddedServer]:
    """One real server for the whole session. A test that needs it empty flushes it first.

    It leaves writing to disk to the kernel: each write of some 2,000 tests waited a millisecond for
    the disk, and longer beside others that write. What a machine that dies would lose, no test asks
    of this server; those that kill a server have their own."""
    path = Path(tempfile.mkdtemp(prefix="qt-"))
    server = EmbeddedServer(path, path / "data", fsync="no")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(path, ignore_errors=True)


def flush(server: EmbeddedServer | str) -> None:
    """Empty a ledger, named by its server or its URL."""
    url = server if isinstance(server, str) else server.url
    with redis.Redis.from_url(url, protocol=2, driver_info=None) as client:
        client.flushall()


@pytest.fixture
def redis_url(embedded_server: EmbeddedServer) -> str:
    """The address of the session's server, which is emptied first."""
    flush(embedded_server)
    return embedded_server.url


@pytest.fixture(scope="session")
def shared_reference() -> Path:
    """Traces, conformance cases and the like, kept beside the checkout in ``../shared``."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("no ../shared beside this checkout: reference data is not here")
    return path
