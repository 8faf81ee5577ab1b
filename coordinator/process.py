"""What the coordinator is as a process: which signals end it, what its garbage collector walks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

YOUNG, MIDDLE, NEVER = 50_000, 2, 1_000_000
"""Thresholds of the garbage collector: new objects until it walks through them, how often until
through those that were new twice ago, and through all."""


def collect_what_is_new() -> None:
    """Jobs are many and live long: to walk through all of them stops everything for longer than a
    third of the lease. What lives long here ends without the collector's help."""
    gc.set_threshold(YOUNG, MIDDLE, NEVER)


def stop_on_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT asks to stop, the second ends the process as it stands: the
    ledger knows everything that was acknowledged."""
    loop = asyncio.get_running_loop()

    def asked(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)
