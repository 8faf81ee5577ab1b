"""The cluster process over a real socket: clients come and go, the cluster and its history stay."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.protocol import BindAnswer, ClusterTimeout
from coordinator.cluster.simulated.client import ClusterError, SocketCluster
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.host import ClusterHost
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.cluster.simulated.server import main
from laboratory.checker.check import check
from shared.ledger.entries.intake_batch import IntakeBatch, PutObject
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.coordinator.cluster.support import asking, report_rows

ROOT = Path(__file__).resolve().parents[3]

PATIENCE = 60.0
"""Seconds that anything may take which has to happen: a process begins within one on a machine
that has time for it."""


@contextmanager
def process(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A cluster process of its own; killed at the end if it still runs."""
    command = [sys.executable, "-m", "coordinator.cluster.simulated.server"]
    files = [f"--socket={folder / 'c.sock'}", f"--history={folder / 'history.jsonl'}"]
    child = subprocess.Popen([*command, *files, *options], stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@asynccontextmanager
async def socket_client(folder: Path, *, timeout: float = PATIENCE) -> AsyncIterator[SocketCluster]:
    """A client of whatever is, or is not, at the socket."""
    cluster = SocketCluster(str(folder / "c.sock"), timeout=timeout)
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def client(folder: Path, *, timeout: float = PATIENCE) -> AsyncIterator[SocketCluster]:
    """One that is answered."""
    async with socket_client(folder, timeout=timeout) as cluster:
        await cluster.ready(within=PATIENCE)
        yield cluster


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_bytes().splitlines()]


async def ended(cluster: SocketCluster, count: int, after: int = 0) -> list[tuple[str, str, str]]:
    """Read reports until ``count`` tasks have ended."""
    observed: list[tuple[str, str, str]] = []
    async with asyncio.timeout(PATIENCE):
        while sum(kind in ("SUCCEEDED", "FAILED") for kind, _, _ in observed) < count:
            reports = await cluster.reports(after=after, wait=1.0)
            after = reports.last
            observed += report_rows(reports)
    return observed


async def test_bind_run_and_stop(short_dir: Path) -> None:
    with process(short_dir, "--speedup=100", "--grace=0.01") as child:
        async with client(short_dir) as cluster:
            answers = await cluster.bind(asking({"1.0": "n0", "1.1": "n1"}, duration=1.0))
            assert answers.answers == [BindAnswer.OK, BindAnswer.OK]
            kinds = [kind for kind, task, _ in await ended(cluster, 2) if task == "1.1"]
            assert kinds == ["STARTED", "RELEASING", "SUCCEEDED"]
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    kinds = ["bind", "start", "releasing", "succeeded", "end"]
    assert [(e["n"], e["ev"]) for e in events(short_dir)] == list(enumerate(kinds, 1))


async def test_acknowledgements_in_the_history_survive_a_restart(
    short_dir: Path,
) -> None:
    with process(short_dir, "--grace=0.01") as child:
        async with client(short_dir) as cluster:
            await cluster.bind(asking({"1.0": "n0"}, duration=None))
            await cluster.acknowledged([(1, 1), (4, 2)])
            await cluster.measured(ReportedUsage({"n0": {"cpu": 50.0}}, begins=1.0, ends=301.0))
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    with process(short_dir, "--grace=0.01") as child:
        async with client(short_dir) as cluster:
            assert (await cluster.look(["1.0"])).nodes == ["n0"]
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    reports = [e for e in events(short_dir) if e["ev"] in ("acknowledged", "end")]
    assert [e.get("jobs") for e in reports] == [[[1, 1], [4, 2]], None, None]
    [measured] = [e for e in events(short_dir) if e["ev"] == "measured"]
    assert measured["usage"] == {"n0": [50.0, -1.0]}
    assert (measured["from"], measured["until"]) == (1.0, 301.0)
    assert [e["n"] for e in events(short_dir)] == list(range(1, 7))


async def test_state_and_reports_outlive_a_killed_client(short_dir: Path) -> None:
    code = (
        "import asyncio, os, signal\n"
        "from coordinator.cluster.simulated.client import SocketCluster\n"
        "from tests.coordinator.cluster.support import asking\n"
        "async def main():\n"
        f"    cluster = SocketCluster({str(short_dir / 'c.sock')!r})\n"
        "    await cluster.bind(asking({'1.0': 'n0'}, duration=0.1))\n"
        "    await cluster.bind(asking({'1.1': 'n0'}, duration=None))\n"
        "    assert (await cluster.reports(after=0, wait=30.0)).tasks\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    with process(short_dir, "--grace=0.01"):
        async with client(short_dir) as cluster:
            first = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
            assert await first.wait() == -signal.SIGKILL
            observed = await ended(cluster, 1)
            assert [kind for kind, task, _ in observed if task == "1.0"] == [
                "STARTED",
                "RELEASING",
                "SUCCEEDED",
            ]
            again = await cluster.bind(asking({"1.1": "n0"}))
            assert again.answers == [BindAnswer.ALREADY]


async def test_waiting_for_reports_ends_with_the_first_one(short_dir: Path) -> None:
    with process(short_dir):
        async with client(short_dir) as cluster, asyncio.TaskGroup() as group:
            waiting = group.create_task(cluster.reports(after=0, wait=3 * PATIENCE))
            await asyncio.sleep(0.05)
            await cluster.bind(asking({"1.0": "n0"}))  # answered while the other waits
            async with asyncio.timeout(PATIENCE):
                assert report_rows(await waiting) == [("STARTED", "1.0", "n0")]
            nothing = await cluster.reports(after=1, wait=0.05)
            assert (nothing.last, nothing.tasks) == (1, [])


async def test_many_requests_in_flight(short_dir: Path) -> None:
    with process(short_dir):
        async with client(short_dir) as cluster:
            requests = [asking({f"{i}.{k}": "n0" for k in range(20)}) for i in range(300)]
            answers = await asyncio.gather(*[cluster.bind(request) for request in requests])
            assert all(answer.answers == [BindAnswer.OK] * 20 for answer in answers)


async def test_delete(short_dir: Path) -> None:
    with process(short_dir, "--grace=0.01"):
        async with client(short_dir) as cluster:
            await cluster.bind(asking({"1.0": "n0"}, duration=None))
            assert (await cluster.delete(["1.0", "2.0"])).never == ["2.0"]
            observed = await ended(cluster, 1)
            assert [kind for kind, _, _ in observed] == ["STARTED", "RELEASING", "FAILED"]
            assert (await cluster.bind(asking({"2.0": "n0"}))).answers == [BindAnswer.GONE]


async def test_no_process_no_answer_then_connected_again(short_dir: Path) -> None:
    async with socket_client(short_dir) as cluster:
        with pytest.raises(ClusterTimeout, match=r"c\.sock"):
            await cluster.bind(asking({"1.0": "n0"}))
        with process(short_dir) as child:
            async with client(short_dir, timeout=1.0) as hasty:
                child.send_signal(signal.SIGSTOP)
                with pytest.raises(ClusterTimeout, match="did not answer 'bind' within 1 s"):
                    await hasty.bind(asking({"1.0": "n0"}))
                child.send_signal(signal.SIGCONT)
            # The lost question may have had its effect; asking again finds out.
            answers = (await cluster.bind(asking({"1.0": "n0"}))).answers
            assert answers == [BindAnswer.ALREADY]
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(_lost(cluster))
                await asyncio.sleep(0.05)
                child.kill()
                await waiting
        with process(short_dir):
            await cluster.ready(within=PATIENCE)
            # The pod has outlived the process that was killed.
            assert (await cluster.bind(asking({"1.0": "n0"}))).answers == [BindAnswer.ALREADY]
            assert (await cluster.bind(asking({"2.0": "n0"}))).answers == [BindAnswer.OK]


async def _lost(cluster: SocketCluster) -> None:
    with pytest.raises(ClusterTimeout, match="lost"):
        await cluster.reports(after=1, wait=30.0)


async def test_a_killed_process_goes_on_with_its_history(short_dir: Path) -> None:
    with process(short_dir) as child:
        async with client(short_dir) as cluster:
            await cluster.bind(asking({"1.0": "n0"}, duration=None))
            child.kill()
            child.wait()
    told_before = (short_dir / "history.jsonl").read_bytes()
    assert b'"bind"' in told_before  # it was written before it was answered
    (short_dir / "history.jsonl").write_bytes(told_before + b'{"torn')
    with process(short_dir):
        async with client(short_dir) as cluster:
            await cluster.bind(asking({"2.0": "n0"}, duration=None))
    assert [(e["n"], e["ev"]) for e in events(short_dir)] == [
        (1, "bind"),
        (2, "start"),
        (3, "bind"),
        (4, "start"),
    ]


async def test_silence_of_the_cluster_is_a_timeout(short_dir: Path) -> None:
    with process(short_dir, "--faults=silent_after=1,refuse=0", "--seed=3"):
        async with client(short_dir, timeout=0.5) as cluster:
            with pytest.raises(ClusterTimeout):
                await cluster.bind(asking({"1.0": "n0"}))
            assert report_rows(await cluster.reports(after=0, wait=30.0)) == [
                ("STARTED", "1.0", "n0")
            ]


@pytest.mark.all
async def test_the_rest_of_the_log_is_in_the_history_when_it_ends(
    short_dir: Path, embedded_server: EmbeddedServer
) -> None:
    async with Redis.from_url(embedded_server.url) as server:
        await server.flushall()
    ledger = RedisLedger(embedded_server.url)
    try:
        await _end_beside_writes(ledger, short_dir, embedded_server.url)
    finally:
        await ledger.close()


async def _end_beside_writes(ledger: RedisLedger, short_dir: Path, url: str) -> None:
    epoch = await ledger.claim(COORDINATOR)
    run = await ledger.bless(epoch)
    with process(short_dir, f"--redis={url}") as child:
        async with client(short_dir):
            child.send_signal(signal.SIGTERM)
            for sequence in range(1, 41):
                ops = [PutObject(f"key-{sequence}", b"")]
                await ledger.store(IntakeBatch(COORDINATOR, epoch, sequence, run, [*ops]))
                if child.poll() is not None:
                    break
            last = await ledger.log_tail()
        assert child.wait(PATIENCE) == 0
    stored = [e["keys"][0] for e in events(short_dir) if e["ev"] == "object"]
    assert stored == [f"key-{i}" for i in range(1, len(stored) + 1)]
    # A second process takes over where the first one stopped, and nothing is told twice.
    with process(short_dir, f"--redis={url}") as child:
        async with client(short_dir) as cluster:
            async with asyncio.timeout(PATIENCE):
                while await cluster.history_position() != last:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    stored = [e["keys"][0] for e in events(short_dir) if e["ev"] == "object"]
    assert stored == [f"key-{i}" for i in range(1, sequence + 1)]
    assert check(short_dir / "history.jsonl").ok


@pytest.mark.all
async def test_a_ledger_that_is_away_makes_the_end_a_failure(short_dir: Path) -> None:
    with process(short_dir, f"--redis=unix://{short_dir / 'nobody.sock'}") as child:
        async with client(short_dir) as cluster:
            assert await cluster.history_position() == "0"
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--speedup=0", "0 is not above 0"),
        ("--grace=-1", "-1 is below 0"),
        ("--faults=sleep=1", "'sleep' is not known; choose from"),
    ],
)
def test_wrong_arguments_are_named(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--socket=s", "--history=h", option])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


# --- the host without a process ---------------------------------------------------------------


class _Sink:
    """A history that can fail."""

    position = "0"

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        if self.error is not None and events:
            raise self.error

    def acknowledged(self, t: float, jobs: list[tuple[int, int]]) -> None:
        pass

    def measured(self, t: float, measured: ReportedUsage) -> None:
        pass


@asynccontextmanager
async def hosted(folder: Path, kubelets: Kubelets, sink: _Sink) -> AsyncIterator[Any]:
    """(socket path, task that runs the host)"""
    loop = asyncio.get_running_loop()
    host = ClusterHost(kubelets, sink, loop.time)
    server = await loop.create_unix_server(host.connection, folder / "c.sock")
    running = asyncio.create_task(host.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        host.close()


async def test_a_history_that_cannot_be_written_stops_everything(short_dir: Path) -> None:
    sink = _Sink(OSError(28, "No space left on device"))
    async with (
        hosted(short_dir, LocalCluster(), sink) as running,
        socket_client(short_dir, timeout=0.3) as cluster,
    ):
        with pytest.raises(ClusterTimeout):  # what is not written down is not answered
            await cluster.bind(asking({"1.0": "n0"}))
        with pytest.raises(OSError, match="No space left"):
            await asyncio.wait_for(running, PATIENCE)


async def test_wrong_requests_are_answered_by_an_error(short_dir: Path) -> None:
    async with hosted(short_dir, LocalCluster(), _Sink()), socket_client(short_dir) as cluster:
        request = asking({"1.0": "n0"})
        request.nodes.append("n1")
        with pytest.raises(ClusterError, match="differ in length"):
            await cluster.bind(request)
        assert (await cluster.bind(asking({"1.0": "n0"}))).answers == [BindAnswer.OK]


async def test_a_peer_that_speaks_something_else_is_disconnected(short_dir: Path) -> None:
    async with hosted(short_dir, LocalCluster(), _Sink()):
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x01\x07"):
            reader, writer = await asyncio.open_unix_connection(short_dir / "c.sock")
            try:
                writer.write(noise)
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await asyncio.wait_for(reader.readexactly(1), PATIENCE)
            finally:
                writer.close()
