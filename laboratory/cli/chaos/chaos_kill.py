"""``quadrant chaos kill``: kill a process of a running `quadrant up`, and tell what came of it."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from coordinator.cli.client.completion import complete_processes
from coordinator.cli.client.connection import Connection
from coordinator.cli.options.failure import (
    EXIT_ERROR,
    EXIT_USAGE,
    CommandError,
    as_command_errors,
)
from coordinator.cli.options.options import Output, OutputOption

if TYPE_CHECKING:
    from coordinator.cli.client.client import KubeClient
    from coordinator.supervisor.live_run import LiveRun
    from laboratory.chaos.kill_one import KillTarget, Recovery, RecoveryWatch

ROLES = ("coordinator", "ledger", "ray")
_SHARD = re.compile(r"shard-(\d{1,4})")
STATUS = "/apis/quadrant.dev/v1alpha1/status"
PODS = "/api/v1/namespaces/default/pods"
PROBE_SECONDS = 0.1
"""Interval at which the probe is sent while nobody takes it."""


def chaos_kill(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="shard-N|coordinator|ledger|ray",
            autocompletion=complete_processes(*ROLES),
            help="The process to kill",
        ),
    ],
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir",
            metavar="DIR",
            help="Directory of the run; otherwise that of the kubeconfig, or the usual one",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, max=600.0, help="Maximum time to wait")
    ] = 60.0,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Submit a pod that requests 1m of CPU, to cause a commit; it is deleted "
            "afterwards",
        ),
    ] = True,
    output: OutputOption = Output.TABLE,
    connection: Connection,
) -> None:
    """Kill a process of a running `quadrant up`, and show the recovery

    The timeline shows the kill, its detection, the end of the lease, the replacement's start, and
    the next placement. The checker's verdict covers the history of the whole run. Only processes of
    a `quadrant up` on this machine are killed. Ends with 1 if a promise was broken or the recovery
    took too long.

    Examples:

      quadrant chaos kill shard-0

      quadrant chaos kill coordinator --seconds 30 -o json
    """
    from coordinator.cli.client.session import session
    from coordinator.supervisor.live_run import NoRun, find_run
    from laboratory.chaos.kill_one import RecoveryWatch, follow

    shard = _shard_of(target)
    with as_command_errors(NoRun), session(connection) as api:
        run = find_run(run_directory(run_dir))
        victim = _target(run, api.client, target, shard)
        with _prober(api.client, wanted=probe) as prober:
            watch = RecoveryWatch(run, victim)
            watch.kill()
            recovery = follow(watch, seconds=seconds, each=lambda: prober.step(watch))
            watch.look()
    raise typer.Exit(_tell(recovery, run.history, output))


def _shard_of(target: str) -> int:
    """The shard's number; -1 for another process. Raises :class:`CommandError` (usage)."""
    if target in ROLES:
        return -1
    match = _SHARD.fullmatch(target)
    if match is None:
        raise CommandError(
            f"{target}: not known; write shard-0 (or another shard), {', '.join(ROLES)}",
            code=EXIT_USAGE,
        )
    return int(match[1])


def run_directory(given: Path | None) -> Path:
    """The directory of the run: as given, of the kubeconfig that `up` wrote there, or the usual
    one."""
    from coordinator.supervisor.live_run import LOCK
    from shared.settings.settings import SettingsError, load_settings

    if given is not None:
        return given.absolute()
    beside = Path(os.environ.get("KUBECONFIG", "")).absolute().parent
    if os.environ.get("KUBECONFIG") and (beside / LOCK).exists():
        return beside
    with as_command_errors(SettingsError):
        return load_settings().run_dir.absolute()


def _target(run: LiveRun, client: KubeClient, name: str, shard: int) -> KillTarget:
    """Raises CommandError, NoRun, KubeError."""
    from laboratory.chaos.kill_one import KillTarget

    if shard < 0:
        client.get(STATUS)  # so that the client's address is that of who leads
        port = urlsplit(client.server).port if name == "coordinator" else None
        return KillTarget(name, run.pid(name, port=port))
    shards: list[dict[str, Any]] = client.get(STATUS)["shards"]
    state = next((each for each in shards if each["shard"] == shard), None)
    if state is None:
        raise CommandError(f"{name}: there are {len(shards)} shards, shard-0 and so on")
    if not state["up"] or not state["pid"]:
        raise CommandError(f"{name} has no worker now; try again in a moment")
    return KillTarget("shard", int(state["pid"]), shard, str(state["epoch"]))


class _Prober:
    """Submits one pod once its commit counts, and asks whether the server is well."""

    def __init__(self, client: KubeClient, *, wanted: bool) -> None:
        self._client = client
        self._name = f"chaos-probe-{secrets.token_hex(4)}"
        self._wanted = wanted
        self.taken = False
        self._next = 0.0

    def step(self, watch: RecoveryWatch) -> None:
        from coordinator.cli.client.client import KubeError

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROBE_SECONDS
        try:
            # Not earlier: another shard could commit it before the loss was noticed, and no other
            # commit would follow.
            if self._wanted and not self.taken and watch.commits_count:
                self._submit()
            if watch.recovery.noticed and not watch.recovery.up:
                self._client.text("/readyz")
                watch.answered()
        except KubeError as error:
            if 400 <= error.code < 500 and error.code != 429:
                raise CommandError(f"the probe was refused: {error}; see --no-probe") from None

    def _submit(self) -> None:
        import orjson

        from coordinator.cli.client.client import KubeError

        container = {"name": "main", "resources": {"requests": {"cpu": "1m"}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self._name, "namespace": "default"},
            "spec": {"containers": [container]},
        }
        try:
            self._client.ask("POST", PODS, body=orjson.dumps(pod))
        except KubeError as error:
            # Stored by an earlier attempt, whose answer was lost with the process.
            if error.code != HTTPStatus.CONFLICT:
                raise
        self.taken = True

    def close(self) -> None:
        import contextlib

        from coordinator.cli.client.client import KubeError

        if self.taken:
            with contextlib.suppress(KubeError):
                self._client.ask("DELETE", f"{PODS}/{self._name}")


@contextmanager
def _prober(client: KubeClient, *, wanted: bool) -> Iterator[_Prober]:
    from coordinator.cli.client.client import KubeClient as Client

    # A client of its own that never waits: what is down is asked again a moment later.
    with (
        closing(Client(client.access, timeout=2.0, patience=0.0)) as quick,
        closing(_Prober(quick, wanted=wanted)) as prober,
    ):
        yield prober


def _tell(recovery: Recovery, history: Path, output: Output) -> int:
    """Print the timeline and the checker's verdict; returns the exit code."""
    from laboratory.checker.check import check
    from laboratory.checker.report.report import HistoryError
    from laboratory.cli.chaos.chaos_check import as_json, print_table

    rows = [(moment.at - recovery.killed, moment.what) for moment in recovery.in_order()]
    missing = [
        label
        for label, happened in (
            ("noticed", recovery.noticed),
            ("replacement up", recovery.up),
            ("first commit after", recovery.committed),
        )
        if not happened
    ]
    with as_command_errors(HistoryError):
        report = check(history)
    if output is Output.JSON:
        import orjson

        timeline = [{"seconds": round(after, 3), "what": label} for after, label in rows]
        result = {"timeline": timeline, "missing": missing, "check": as_json(report)}
        typer.echo(orjson.dumps(result).decode())
    else:
        for after, label in rows:
            typer.echo(f"{after:8.3f} s  {label}")
        for label in missing:
            typer.echo(f"         -   not seen in time: {label}")
        print_table(report)
    return EXIT_ERROR if missing or not report.ok else 0
