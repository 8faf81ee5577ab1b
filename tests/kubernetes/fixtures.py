"""Fixtures of a real cluster, for every test below ``tests``.

The tests that use them run in two processes (``make test-kubernetes``), and share one API server in
each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from tests.kubernetes.access import account, grant, token_of
from tests.kubernetes.emptying import empty
from tests.kubernetes.faults.proxy import FaultyProxy, faulty_proxy
from tests.kubernetes.servers.build import MISSING, cache_folder, find_binaries
from tests.kubernetes.servers.gates import GROUP_GATES, GROUP_VERSIONS

MARKER = "kubernetes"
FIXTURE = "kubernetes_binaries"
"""Tests that use it, directly or through other fixtures, get the marker."""
WALK = (
    "tests/kubernetes/driver/test_up.py",
    "tests/kubernetes/driver/test_gangs.py",
    "tests/kubernetes/test_control_plane.py",
)
"""The files of `make test`: a service that is started, and gangs from their objects to their end.
All others are ``all``."""
FOLDERS = ("tests/kubernetes/", "tests/deploy/")
"""Where ``make test-kubernetes`` looks: to import all tests for these takes 12 s."""


@pytest.hookimpl(tryfirst=True)  # before the expression of -m chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FIXTURE in getattr(item, "fixturenames", ()):
            if not item.nodeid.startswith(FOLDERS):
                raise pytest.UsageError(
                    f"{item.nodeid} needs the API server: move it to a folder of {FOLDERS}"
                )
            item.add_marker(MARKER)
            if not item.nodeid.startswith(WALK):
                item.add_marker("all")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line on what was left out, which ``-q`` would not say."""
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [report for report in skipped if MARKER in report.keywords]
    if left_out:
        reason = MISSING.format(folder=cache_folder())
        terminalreporter.write_line(f"{len(left_out)} tests left out: {reason}")


@pytest.fixture(scope="session")
def kubernetes_binaries() -> Binaries:
    """Binaries that ``make kubernetes`` built. Missing, it is a failure in CI where Go could build
    it."""
    binaries = find_binaries()
    if binaries is None:
        reason = MISSING.format(folder=cache_folder())
        if os.environ.get("CI") and shutil.which("go"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return binaries


@pytest.fixture(scope="session")
def control_plane(kubernetes_binaries: Binaries) -> Iterator[ControlPlane]:
    """One API server for the whole session. A test that kills it starts it again."""
    folder = Path(tempfile.mkdtemp(prefix="qt-"))
    options = (GROUP_GATES, GROUP_VERSIONS)
    plane = ControlPlane(folder, kubernetes_binaries, api_server_options=options)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ApiClient]:
    """The cluster's administrator, in a cluster where nothing is left of the tests before."""
    async with client_of(control_plane.admin) as client:
        await empty(client)
        yield client


@pytest_asyncio.fixture
async def proxy(cluster: ApiClient, control_plane: ControlPlane) -> AsyncIterator[FaultyProxy]:
    """A proxy before the API server, which spoils what a test tells it to."""
    async with faulty_proxy(control_plane) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def proxied(cluster: ApiClient, proxy: FaultyProxy) -> Identity:
    """Identity with all rights that connects by way of the proxy."""
    token = await token_of(cluster, "kube-system", "proxied")
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await grant(cluster, account("kube-system", "proxied"), [everything])
    identity = proxy.identity("proxied", token)
    async with client_of(identity) as client:
        await client.until("/api/v1/nodes", lambda answer: "items" in answer)
    return identity
