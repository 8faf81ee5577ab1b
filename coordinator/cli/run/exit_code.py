"""Run a command's coroutine until it ends or is stopped, and give the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import typer

from coordinator.cli.options.failure import EXIT_INTERRUPTED, NO_ROOM, CommandError
from coordinator.supervisor.child_process import ChildDied
from coordinator.supervisor.supervisor import SupervisorError


def run_to_exit_code(
    main: Callable[[], Coroutine[Any, Any, int]], *, mistakes: tuple[type[Exception], ...] = ()
) -> int:
    """Run until done, Ctrl-C, SIGTERM or the end of the terminal; all but the first stop
    everything cleanly and give 130.

    Raises :class:`CommandError` for what a person can understand and mend: a process of ours that
    ended, and ``mistakes``.
    """
    try:
        return asyncio.run(_stoppable(main()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _interrupted()
    except (Exception, BaseExceptionGroup) as error:
        cause = _first(error)
        if isinstance(cause, KeyboardInterrupt):
            return _interrupted()
        if isinstance(cause, CommandError):
            raise cause from None
        if isinstance(cause, (ChildDied, SupervisorError, *mistakes)):
            raise CommandError(str(cause)) from None
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            raise cause from None
        raise


def _interrupted() -> int:
    with contextlib.suppress(OSError):  # the terminal may be what ended
        typer.echo("Interrupted; all processes are stopped", err=True)
    return EXIT_INTERRUPTED


async def _stoppable(main: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants it ignored
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await main


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
