"""The coordinator as a process: its address, the signals that end it, its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections.abc import Callable

import structlog

from coordinator.api.listener.listener import CannotListen
from coordinator.dispatch.ray_connection import RayLost
from coordinator.supervisor.child_process import DEPOSED
from shared.codec.checked import Malformed
from shared.errors import first_of
from shared.ledger.errors import Deposed, LedgerAltered, LedgerIdentity, LedgerTrimmed
from shared.telemetry.logging import PrintedLines

log = structlog.get_logger(__name__)

_ANY = ("0.0.0.0", "::")
"""Addresses to listen on that tell nobody where we are."""


def address_of(host: str, port: int) -> str:
    """Where this coordinator is found, for people."""
    return f"{platform.node() if host in _ANY else host}:{port}"


def stop_on_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT asks to stop, the second ends the process at once: the ledger has
    everything that was acknowledged."""
    loop = asyncio.get_running_loop()

    def asked(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)


def exit_code(run: Callable[[], None]) -> int:
    """Run it to its end. 0 = it was asked to stop, 1 = a part failed or the ledger is not ours,
    :data:`DEPOSED` = another coordinator took the leadership. One line says why; what is not
    expected goes on to whoever calls. What is printed meanwhile becomes log lines."""
    code = 0
    try:
        with contextlib.redirect_stdout(PrintedLines()):
            run()
    except* Deposed as group:
        log.error("Another coordinator leads now", why=first_of(group))
        code = DEPOSED
    except* LedgerTrimmed as group:
        log.error("Stood still for too long to follow; started again, it does", why=first_of(group))
        code = DEPOSED
    except* RayLost as group:
        log.error("Ray is lost; started again, this coordinator joins anew", why=first_of(group))
        code = 1
    except* (LedgerIdentity, LedgerAltered, Malformed) as group:
        log.error("This is not the ledger that was expected", why=first_of(group))
        code = 1
    except* CannotListen as group:
        log.error("Cannot listen", why=first_of(group))
        code = 1
    return code
