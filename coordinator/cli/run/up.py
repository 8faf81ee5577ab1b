"""``quadrant up``: everything running until Ctrl-C."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.options.failure import CommandError, as_command_errors
from coordinator.cli.options.options import GivenMode, GivenSeed, GivenShards
from coordinator.cli.options.policy_file import check_policy
from coordinator.cli.output.terminal import hint_to_path

if TYPE_CHECKING:
    from shared.settings.settings import Settings

KUBERNETES = "A Kubernetes cluster"
DEFAULT_PORT = 8080
"""Where nothing says another, so that commands find the server without being told."""
PAGE = "/ui/"
"""Where a browser finds the page."""
KUBECONFIG = "kubeconfig"
"""Name of the file in the run directory."""


def up(
    *,
    shards: GivenShards = None,
    mode: GivenMode = None,
    seed: GivenSeed = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address of the HTTP interface; port 0 = any. Otherwise that of the settings, or "
            "127.0.0.1:8080",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Scheduler configuration, in the form of Volcano's",
        ),
    ] = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Start a second coordinator, on a port of its own, that takes over when the first "
            "is lost",
        ),
    ] = False,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            rich_help_panel=KUBERNETES,
            help="Schedule the Kubernetes cluster of this kubeconfig, and no simulated one",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            rich_help_panel=KUBERNETES,
            help="Context of that kubeconfig; otherwise its current one",
        ),
    ] = None,
    in_cluster: Annotated[
        bool,
        typer.Option(
            "--in-cluster",
            rich_help_panel=KUBERNETES,
            help="Schedule the Kubernetes cluster that this runs in, as a pod",
        ),
    ] = False,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            rich_help_panel=KUBERNETES,
            help="Decide beside the cluster's scheduler and write nothing to it: see quadrant "
            "shadow report",
        ),
    ] = False,
) -> None:
    """Start the ledger, Ray, the coordinator and a simulated cluster, and keep them running

    Prints the address of the HTTP interface on the first line of stdout, and how to use it on
    stderr: a kubeconfig for kubectl and for this command. A process that dies is started again; one
    that dies five times within a minute ends everything. Ctrl-C stops everything; acknowledged
    objects are in the ledger's files and are back after the next start. Other settings come from
    the environment (QUADRANT_...); see: quadrant config show --origin
    """
    host, port = _host_and_port(listen)
    from coordinator.api.listener.listener import listener_options
    from coordinator.api.listener.policy import open_gate
    from coordinator.cli.run.exit_code import run_to_exit_code
    from shared.settings.settings import SettingsError, load_settings

    with as_command_errors(SettingsError):
        port = usual_port() if port is None else port
        settings = load_settings(
            shards=shards,
            mode=mode and mode.value,
            seed=seed,
            listen_host=host,
            listen_port=port,
            policy=policy,
            standby=standby or None,
            kubeconfig=kubeconfig and kubeconfig.absolute(),
            kube_context=context,
            in_cluster=in_cluster or None,
            shadow=shadow or None,
        )
        # told here at once, not in the log of a child that cannot start
        open_gate(settings)
        listener_options(settings)
        _look_at_policy(settings)
    _refuse_if_taken(settings.listen_host, settings.listen_port)

    async def serve(settings: Settings) -> int:
        from coordinator.supervisor.restarts import Keeper
        from coordinator.supervisor.supervisor import Supervisor

        async with Supervisor(settings, on_phase=_tell_phase) as supervisor:
            typer.echo(supervisor.url)
            own_ledger = settings.redis_url is None
            _tell_how_to_ask(supervisor.settings, supervisor.urls, own_ledger=own_ledger)
            await Keeper(
                supervisor, report=lambda message: typer.echo(f"{message}", err=True)
            ).run()
        return 0

    raise typer.Exit(run_to_exit_code(lambda: serve(settings)))


def _tell_phase(text: str) -> None:
    """Show a phase of the start-up, which takes some seconds; only on a terminal."""
    if sys.stderr.isatty():
        typer.echo(f"{text[:1].upper()}{text[1:]}", err=True)


def usual_port() -> int | None:
    """The default port; None if a setting names one. Raises SettingsError."""
    from shared.settings.settings import origins

    return DEFAULT_PORT if origins()["listen_port"] == "default" else None


def _tell_how_to_ask(settings: Settings, urls: list[str], *, own_ledger: bool) -> None:
    """Write the kubeconfig; say on stderr how to use it, what to try, and where the ledger is if
    its server was started here. ``urls``: of all coordinators; kubectl asks the first alone."""
    token_file = os.environ.get("QUADRANT_TOKEN_FILE")
    lines = _next_steps(settings, has_token=bool(token_file))
    if len(urls) > 1 or settings.kubernetes:
        lines.insert(0, f"export QUADRANT_SERVER={','.join(urls)}")
        if settings.tls_cert_file is not None:
            lines.insert(0, f"export QUADRANT_CA_FILE={settings.tls_cert_file.absolute()}")
    if not settings.kubernetes:  # there kubectl goes on asking the cluster
        lines.insert(0, f"export KUBECONFIG={_write_kubeconfig(settings, token_file)}")
    lines.append(f"In a browser: {urls[0].rstrip('/')}{PAGE}")
    if own_ledger:
        lines.append(f"What is acknowledged is kept in {settings.data_dir}")
    typer.echo("\n".join([*lines, "Running; Ctrl-C stops everything"]), err=True)


def _write_kubeconfig(settings: Settings, token_file: str | None) -> Path:
    from coordinator.cli.client.kubeconfig import write_kubeconfig

    return write_kubeconfig(
        settings.run_dir / KUBECONFIG,
        server=f"{settings.scheme}://{reachable(settings.listen_host)}:{settings.listen_port}",
        token_file=Path(token_file).absolute() if token_file else None,
        ca_file=settings.tls_cert_file and settings.tls_cert_file.absolute(),
    )


def _next_steps(settings: Settings, *, has_token: bool) -> list[str]:
    """``has_token``: the kubeconfig names a file with a token. Lines of at most 80 characters."""
    rest = ["The cluster has the nodes that are applied to it: quadrant apply -f FILE"]
    if settings.kubernetes:
        rest = ["Objects live in the Kubernetes cluster: write them there, with kubectl"]
        if settings.shadow:
            rest.append("What would be decided otherwise: quadrant shadow report")
    if hint := hint_to_path():
        rest.append(f"Here {hint.removesuffix(' here')}")
    if settings.tokens_file is None and not settings.access_reviews:
        first = "" if settings.kubernetes else "kubectl get queues, or: "
        return [f"Next: {first}quadrant top", *rest]
    advice = ["Who asks needs a token: export QUADRANT_TOKEN=... or QUADRANT_TOKEN_FILE=FILE"]
    if settings.access_reviews:
        advice.append("One of the cluster: kubectl create token NAME --audience quadrant")
    plain = ["kubectl sends no token over plain HTTP; give it TLS: docs/deploy.md"]
    return [
        *([] if has_token else advice),
        "Next: quadrant top",
        *rest,
        *(plain if settings.tls_cert_file is None else []),
    ]


def _look_at_policy(settings: Settings) -> None:
    """Check the policy before anything starts. An invalid file is only a warning where an earlier
    policy is kept (:mod:`coordinator.service.policy_watch`); otherwise raises SettingsError."""
    from shared.policy.file import ACCEPTED_FILE
    from shared.settings.settings import SettingsError

    try:
        check_policy(settings)
    except SettingsError as error:
        if not (settings.run_dir / ACCEPTED_FILE).exists():
            raise
        typer.echo(f"Warning: {error}\nWarning: the last policy that was good counts", err=True)


def reachable(host: str) -> str:
    """Where a client on this machine reaches a server that listens on ``host``."""
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    return "[::1]" if host == "::" else f"[{host}]" if ":" in host else host


def _refuse_if_taken(host: str, port: int) -> None:
    """Before anything is started. Raises :class:`CommandError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except socket.gaierror as error:
            raise CommandError(
                f"--listen {host}:{port}: {error.strerror}; name an address of this machine, "
                "such as 127.0.0.1"
            ) from None
        except OSError as error:
            raise CommandError(
                f"--listen {host}:{port}: {error.strerror}; end what listens there, or take "
                f"another port: quadrant up --listen {host}:0 takes any that is free"
            ) from None


def _host_and_port(listen: str | None) -> tuple[str | None, int | None]:
    """The parts of HOST:PORT; None where nothing was said."""
    if listen is None:
        return None, None
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    return host.removeprefix("[").removesuffix("]"), int(port)
