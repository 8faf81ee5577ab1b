"""``quadrant ledger``: see which ledger a server holds, and accept one that was not expected.

Against the server that the settings name. The embedded one is started for the moment where it does
not run; nobody may use it while it is restored.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from coordinator.commands.failure import EXIT_ERROR, CommandError
from coordinator.commands.options import Output, OutputOption

if TYPE_CHECKING:
    from shared.ledger.access import Access
    from shared.ledger.care import Care, Condition, Found
    from shared.ledger.identity import Known
    from shared.settings import Settings

T = TypeVar("T")

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="See which ledger a server holds, and accept one that was not expected",
)


@app.command()
def show(output: OutputOption = Output.TABLE) -> None:
    """Show which ledger it is, what it holds, who leads, and whether it is the expected one

    Ends with 0 where it is the expected one or a new one, else with 1.
    """
    settings = _settings()
    known = _known(settings)
    with _reachable(settings) as access:
        found = _ask(access, lambda care: care.look(known))
    condition = _judge(found, known)
    if output is Output.JSON:
        typer.echo(json.dumps(_plain(found, known, condition)))
    else:
        for name, value in _lines(found, known, condition):
            typer.echo(f"{name:<12}{value}")
    if condition.value not in ("ours", "new"):
        raise typer.Exit(EXIT_ERROR)


@app.command()
def restore(
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only tell what would be lost")
    ] = False,
) -> None:
    """Accept the ledger that is there, although another or a newer one was expected

    For after a disk was lost or a copy was brought back. An empty server becomes a new ledger; an
    old copy is taken as it is. What is missing in it is lost: it is told before anything is done.
    """
    settings = _settings()
    known = _known(settings)
    with _reachable(settings, alone=True) as access:
        found = _ask(access, lambda care: care.look(known))
        condition = _judge(found, known)
        if condition.value in ("ours", "new"):
            typer.echo(f"nothing to restore: the ledger is {condition.value}")
            return
        if found.seconds_left > 0:
            who = f" ({found.holder})" if found.holder else ""
            raise CommandError(
                f"a coordinator{who} leads on this ledger; stop it, then run this again"
            )
        if condition.value == "another" and settings.cluster_id:
            raise CommandError(
                f"QUADRANT_CLUSTER_ID asks for {settings.cluster_id}, which goes before what is "
                f"accepted here; set it to {found.cluster}, then start"
            )
        for line in _told(found, known, condition):
            sys.stderr.write(f"{line}\n")
        if not yes:
            raise CommandError("nothing was done; to accept what is there, add --yes")
        accepted = _ask(access, lambda care: care.accept(found, known))
    _note(settings, accepted)
    typer.echo(f"ledger/{accepted.cluster} accepted")


# --- what is told -----------------------------------------------------------------------------


def _told(found: Found, known: Known, condition: Condition) -> list[str]:
    """What it is, and what may be lost."""
    holds = ", ".join(f"{count} {what}" for what, count in found.counts.items())
    pods = "Pods that run go on; those it does not know count as used by others."
    match condition.value:
        case "empty":
            return [
                f"The server is empty; ledger {known.cluster} was expected.",
                "Lost: every object and the state of every task. It becomes a new ledger.",
                pods,
            ]
        case "unnamed":
            return [
                f"The server holds {holds}, but not whose they are.",
                "Lost: nothing that is there; what is missing cannot be told.",
            ]
        case "another":
            return [
                f"This is ledger {found.cluster} with {holds}; {known.cluster} was expected.",
                f"Lost: whatever {known.cluster} held and this one does not.",
                pods,
            ]
        case "old copy":
            return [
                f"The ledger was seen until {_time(known.log)}; it does not know of that.",
                f"Its log ends at {_time(found.log)}.",
                "Lost: objects and task states of the time between, also those acknowledged.",
                pods,
            ]
        case _:
            return [f"The ledger is {condition.value}: it has schema {found.schema}."]


def _time(log_id: str) -> str:
    from datetime import UTC, datetime

    seconds = int(log_id.partition("-")[0]) / 1000
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z ({log_id})"


def _lines(found: Found, known: Known, condition: Condition) -> list[tuple[str, str]]:
    lead = f"{found.holder or 'yes'}, {found.seconds_left:.1f} s left"
    return [
        ("Ledger:", found.cluster or "<none>"),
        ("Expected:", known.cluster or "<any>"),
        ("It is:", condition.value),
        ("Schema:", str(found.schema)),
        ("Log:", f"{found.log}, seen until {known.log}"),
        ("Leader:", lead if found.seconds_left > 0 else "<none>"),
        *((f"{what.capitalize()}:", str(count)) for what, count in found.counts.items()),
    ]


def _plain(found: Found, known: Known, condition: Condition) -> dict[str, object]:
    return {
        "apiVersion": "quadrant.dev/v1alpha1",
        "kind": "Ledger",
        "cluster": found.cluster,
        "condition": condition.value,
        "schema": found.schema,
        "log": found.log,
        "expected": {"cluster": known.cluster, "log": known.log},
        "leader": {"holder": found.holder, "secondsLeft": round(found.seconds_left, 3)},
        "counts": found.counts,
    }


# --- reaching it ------------------------------------------------------------------------------


def _settings() -> Settings:
    from shared.settings import SettingsError, load_settings

    try:
        return load_settings()
    except SettingsError as error:
        raise CommandError(str(error)) from None


def _known(settings: Settings) -> Known:
    from shared.ledger.errors import LedgerIdentity
    from shared.ledger.identity import expected

    try:
        return expected(settings)
    except LedgerIdentity as error:
        raise CommandError(str(error)) from None


def _judge(found: Found, known: Known) -> Condition:
    from shared.ledger.care import judge

    return judge(found, known)


def _note(settings: Settings, known: Known) -> None:
    from shared.ledger.identity import note, path_of

    path = path_of(settings)
    try:
        note(path, known)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _reachable(settings: Settings, *, alone: bool = False) -> Iterator[Access]:
    """The server of the settings. Where it is the embedded one and runs, then that, unless nobody
    else may use it (``alone``)."""
    from shared.ledger.errors import ServerFailed
    from shared.ledger.server import SOCKET, EmbeddedServer

    if settings.redis_url is not None:
        yield settings.access()
        return
    running = settings.run_dir / SOCKET
    if not settings.data_dir.is_dir():
        raise CommandError(
            f"{settings.data_dir} is not there: no ledger was ever kept in it; name another with "
            "QUADRANT_DATA_DIR, or a server with QUADRANT_REDIS_URL"
        )
    with tempfile.TemporaryDirectory(prefix="ql-") as directory:
        server = EmbeddedServer(directory, settings.data_dir)
        try:
            server.start()
        except ServerFailed as error:
            if alone or not running.exists():
                raise CommandError(str(error)) from None
            yield _of_running(settings, str(running))
            return
        try:
            yield settings.replace(redis_url=server.url).access()
        finally:
            server.stop()


def _of_running(settings: Settings, socket: str) -> Access:
    """As the supervisor made it: its password is in a file beside the socket."""
    from coordinator.supervisor import SECRET_FILES

    changes: dict[str, object] = {"redis_url": f"unix://{socket}"}
    secret = settings.run_dir / SECRET_FILES["redis_password"]
    if settings.redis_password is None and secret.exists():
        changes["redis_password_file"] = secret
    return settings.replace(**changes).access()


def _ask(access: Access, question: Callable[[Care], Awaitable[T]]) -> T:
    from shared.ledger.care import Care
    from shared.ledger.errors import LedgerError

    async def asking() -> T:
        care = Care(access)
        try:
            return await question(care)
        finally:
            await care.close()

    try:
        return asyncio.run(asking())
    except LedgerError as error:
        raise CommandError(str(error)) from None
