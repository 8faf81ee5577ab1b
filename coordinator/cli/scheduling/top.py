"""``quadrant top``: the cluster at a glance, drawn again and again. What is drawn: top_screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.connection import Connection

if TYPE_CHECKING:
    from rich.console import Console

    from coordinator.cli.client.session import ServerSession
    from coordinator.cli.scheduling.top_screen import Screen

STATUS = "/apis/quadrant.dev/v1alpha1/status"
QUIT = ("q", "Q", "\x03", "\x1b")


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end")] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="Time between two readings: 2s, 500ms")
    ] = "2s",
    connection: Connection,
) -> None:
    """Watch the cluster: shards, queues, and why jobs wait

    q ends it. Without a terminal the table is printed once.
    """
    from rich.console import Console

    from coordinator.cli.client.session import session
    from coordinator.cli.options.failure import EXIT_USAGE, CommandError
    from coordinator.cli.output.durations import seconds_of
    from coordinator.cli.scheduling.top_screen import Screen

    seconds = seconds_of(interval, "--interval")
    if seconds < 0.1:
        raise CommandError(
            f"--interval {interval}: too short; write 100ms or more", code=EXIT_USAGE
        )
    console = Console(highlight=False)
    with session(connection, timeout=10.0) as api:
        screen = Screen(api.client.access.server)
        _look(api, screen)
        if once or not console.is_terminal:
            console.print(screen.render(console.width, interactive=False))
            return
        _watch(api, screen, console, seconds)


def _look(session: ServerSession, screen: Screen) -> None:
    """Ask the server once."""
    from coordinator.cli.scheduling import kai_queues
    from coordinator.cli.scheduling.queue_figures import METRICS, queue_figures
    from coordinator.cli.scheduling.top_screen import ScreenSample

    status, resource = session.client.get(STATUS), session.catalog.resolve("queues")
    if resource.group == kai_queues.GROUP:
        sample = ScreenSample(status, tree=kai_queues.read_tree(session), at=time.time())
        screen.take(sample, time.monotonic())
        return
    queues = session.items(resource.path(None), {})
    figures = queue_figures(session.client.text(METRICS))
    screen.take(ScreenSample(status, queues, figures, at=time.time()), time.monotonic())


def _watch(session: ServerSession, screen: Screen, console: Console, seconds: float) -> None:
    """Until q. A server that does not answer is told on the screen, and asked again."""
    from rich.live import Live

    from coordinator.cli.client.client import KubeError

    with (
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(screen.render(console.width, height=console.height), refresh=True)
            if pressed(seconds) in QUIT:
                return
            try:
                _look(session, screen)
                screen.trouble = ""
            except KubeError as error:
                screen.trouble = str(error)


@contextmanager
def _keys() -> Iterator[Any]:
    """A function that waits for a key, at most so many seconds; "" where none came."""
    if not sys.stdin.isatty():
        yield _only_wait
        return
    import os
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _only_wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""
