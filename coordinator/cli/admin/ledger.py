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
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from coordinator.cli.options.failure import EXIT_ERROR, CommandError, as_command_errors
from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.options.records import CommandGroup
from shared.units.times import rfc3339

if TYPE_CHECKING:
    from shared.ledger.redis.acceptance import LedgerAcceptance, LedgerCondition, ServerContent
    from shared.ledger.redis.access import Access
    from shared.ledger.redis.identity import LedgerIdentityNote
    from shared.settings.settings import Settings

T = TypeVar("T")

app = CommandGroup(no_args_is_help=True)


@app.command()
def show(output: OutputOption = Output.TABLE) -> None:
    """Show the ledger's identity, content and leader, and whether it is the expected ledger

    Ends with 0 if it is the expected ledger or a new one, otherwise with 1.
    """
    settings = _settings()
    expected = _known(settings)
    with _reachable(settings) as access:
        state = _ask(access, lambda care: care.look(expected))
    condition = _judge(state, expected)
    if output is Output.JSON:
        typer.echo(json.dumps(_plain(state, expected, condition)))
    else:
        for name, value in _lines(state, expected, condition):
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
    """Accept the ledger of this server although another or a newer one was expected

    Use it after a lost disk or a restored backup. An empty server becomes a new ledger; an old copy
    is accepted as it is. Missing data is lost; the command says so before it does anything.
    """
    settings = _settings()
    expected = _known(settings)
    with _reachable(settings, alone=True) as access:
        state = _ask(access, lambda care: care.look(expected))
        condition = _judge(state, expected)
        if condition.value in ("ours", "new"):
            typer.echo(f"nothing to restore: the ledger is {condition.value}")
            return
        if state.seconds_left > 0:
            holder = f" ({state.holder})" if state.holder else ""
            raise CommandError(
                f"a coordinator{holder} leads on this ledger; stop it, then run this again"
            )
        if condition.value == "another" and settings.cluster_id:
            raise CommandError(
                f"QUADRANT_CLUSTER_ID asks for {settings.cluster_id}, which goes before what is "
                f"accepted here; set it to {state.cluster}, then start"
            )
        for line in _told(state, expected, condition):
            sys.stderr.write(f"{line}\n")
        if not yes:
            raise CommandError("nothing was changed; add --yes to accept this ledger")
        accepted = _ask(access, lambda care: care.accept(state, expected))
    _note(settings, accepted)
    typer.echo(f"ledger/{accepted.cluster} accepted")


# --- what is told -----------------------------------------------------------------------------


def _told(
    state: ServerContent, expected: LedgerIdentityNote, condition: LedgerCondition
) -> list[str]:
    """The ledger's state, and the data that accepting it may lose."""
    holds = ", ".join(f"{count} {kind}" for kind, count in state.counts.items())
    pods = "Pods that run go on; those it does not know count as used by others."
    match condition.value:
        case "empty":
            return [
                f"The server is empty; ledger {expected.cluster} was expected.",
                "Lost: every object and the state of every task. It becomes a new ledger.",
                pods,
            ]
        case "unnamed":
            return [
                f"The server holds {holds}, without a ledger's identity.",
                "Nothing on the server is lost; missing data cannot be determined.",
            ]
        case "another":
            return [
                f"This is ledger {state.cluster} with {holds}; {expected.cluster} was expected.",
                f"Lost: whatever {expected.cluster} held and this one does not.",
                pods,
            ]
        case "old copy":
            return [
                f"The ledger was seen until {_time(expected.log)}; it does not know of that.",
                f"Its log ends at {_time(state.log)}.",
                "Lost: objects and task states of the time between, also those acknowledged.",
                pods,
            ]
        case _:
            return [f"The ledger is {condition.value}: it has schema {state.schema}."]


def _time(log_id: str) -> str:
    return f"{rfc3339(int(log_id.partition('-')[0]) / 1000)} ({log_id})"


def _lines(
    state: ServerContent, expected: LedgerIdentityNote, condition: LedgerCondition
) -> list[tuple[str, str]]:
    lead = f"{state.holder or 'yes'}, {state.seconds_left:.1f} s left"
    return [
        ("Ledger:", state.cluster or "<none>"),
        ("Expected:", expected.cluster or "<any>"),
        ("It is:", condition.value),
        ("Schema:", _schema(state)),
        ("Log:", f"{state.log}, seen until {expected.log}"),
        ("Leader:", lead if state.seconds_left > 0 else "<none>"),
        *((f"{kind.capitalize()}:", str(count)) for kind, count in state.counts.items()),
    ]


def _schema(state: ServerContent) -> str:
    from shared.ledger.schema import SCHEMA

    if state.progress is not None:
        return f"{state.schema}, {state.progress}; a coordinator that leads goes on with it"
    if 0 < state.schema < SCHEMA:
        return f"{state.schema}; the next coordinator that leads takes it up to {SCHEMA}"
    return str(state.schema)


def _plain(
    state: ServerContent, expected: LedgerIdentityNote, condition: LedgerCondition
) -> dict[str, object]:
    return {
        "apiVersion": "quadrant.dev/v1alpha1",
        "kind": "Ledger",
        "cluster": state.cluster,
        "condition": condition.value,
        "schema": state.schema,
        "takeUp": None if state.progress is None else asdict(state.progress),
        "log": state.log,
        "expected": {"cluster": expected.cluster, "log": expected.log},
        "leader": {"holder": state.holder, "secondsLeft": round(state.seconds_left, 3)},
        "counts": state.counts,
    }


# --- reaching it ------------------------------------------------------------------------------


def _settings() -> Settings:
    from shared.settings.settings import SettingsError, load_settings

    with as_command_errors(SettingsError):
        return load_settings()


def _known(settings: Settings) -> LedgerIdentityNote:
    from shared.ledger.errors import LedgerIdentity
    from shared.ledger.redis.identity import expected

    with as_command_errors(LedgerIdentity):
        return expected(settings.data_dir, settings.cluster_id)


def _judge(state: ServerContent, expected: LedgerIdentityNote) -> LedgerCondition:
    from shared.ledger.redis.acceptance import judge

    return judge(state, expected)


def _note(settings: Settings, identity: LedgerIdentityNote) -> None:
    from shared.ledger.redis.identity import note, path_of

    path = path_of(settings.data_dir)
    try:
        note(path, identity)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _reachable(settings: Settings, *, alone: bool = False) -> Iterator[Access]:
    """The server of the settings. Where it is the embedded one and runs, then that, unless nobody
    else may use it (``alone``)."""
    from shared.ledger.errors import ServerFailed
    from shared.ledger.redis.server import SOCKET, EmbeddedServer

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
    from coordinator.supervisor.supervisor import SECRET_FILES

    changes: dict[str, object] = {"redis_url": f"unix://{socket}"}
    secret = settings.run_dir / SECRET_FILES["redis_password"]
    if settings.redis_password is None and secret.exists():
        changes["redis_password_file"] = secret
    return settings.replace(**changes).access()


def _ask(access: Access, question: Callable[[LedgerAcceptance], Awaitable[T]]) -> T:
    from shared.ledger.errors import LedgerError
    from shared.ledger.redis.acceptance import LedgerAcceptance

    async def asking() -> T:
        care = LedgerAcceptance(access)
        try:
            return await question(care)
        finally:
            await care.close()

    with as_command_errors(LedgerError):
        return asyncio.run(asking())
