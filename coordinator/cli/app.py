"""The command ``quadrant``, and ``kubectl quadrant``.

Ray, NumPy, aiohttp and pydantic take a second to import, so that nothing here imports them before
a command runs that needs them: ``quadrant --help`` answers at once. The subcommands are passed in:
those of the service are in :mod:`coordinator.cli.catalogue`, and a room above adds its own.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Iterable
from typing import cast

import typer
from typer.core import TyperGroup

from coordinator.cli.options.failure import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    NO_ROOM,
    CommandError,
)
from coordinator.cli.options.lazy import CommandEntry, group_of
from coordinator.cli.options.records import HELP, CommandGroup
from coordinator.cli.output.terminal import say_error

COMPLETION = "_QUADRANT_COMPLETE"
"""Set by the completion scripts of shells: what they ask for."""
RAISED_AGAIN_AFTER = 0.1
"""Seconds. Raised here and now, it would be dropped with what drops the first one."""


def application(entries: Iterable[CommandEntry]) -> CommandGroup:
    """The command with these subcommands."""
    app = CommandGroup(name="quadrant", cls=group_of(entries), no_args_is_help=True)
    app.callback()(quadrant)
    return app


def quadrant() -> None:
    """Schedule gangs of tasks on a cluster that is cut into shards

    A coordinator orders the jobs, one worker per shard places them in parallel, and a ledger
    accepts or refuses every placement before anything is bound.

    Start with: quadrant demo
    """


def main(app: CommandGroup, prog_name: str | None = None) -> None:
    """Run the command; a user's mistake ends in one sentence and an exit code, not a traceback."""
    sys.unraisablehook = _interrupt_again
    _open_closed_streams()
    sys.exit(run(app, sys.argv[1:], prog_name))


def _open_closed_streams() -> None:
    """Python has None in the place of a stream that the shell closed (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def run(app: CommandGroup, arguments: list[str], prog_name: str | None = None) -> int:
    """Run the command in this process and return its exit code.

    A reader that leaves (``| head -1``) ends the command without a word: with 0 where it asked
    for help, and with 1 otherwise, because what the exit code would have told is not known.
    """
    try:
        code = _exit_code(app, arguments, prog_name)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left(arguments)
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # Rich turns one into the other
            raise
        return _reader_left(arguments)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        say_error(f"cannot write: {where}{error.strerror}; make room, or write elsewhere")
        return EXIT_ERROR


def _exit_code(app: CommandGroup, arguments: list[str], prog_name: str | None) -> int:
    try:
        if COMPLETION in os.environ:
            _teach_shells()
        code = app(arguments, prog_name=prog_name, complete_var=COMPLETION, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except CommandError as error:
        say_error(str(error))
        return error.code
    except typer.Abort:
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return _usage(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _reader_left(arguments: list[str]) -> int:
    _discard_output()
    own = itertools.takewhile(lambda word: word != "--", arguments)
    return 0 if not {*own}.isdisjoint(HELP["help_option_names"]) else EXIT_ERROR


def _discard_output() -> None:
    """Send to nowhere what is still buffered: Python would write it at its end, and fail again."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """A Ctrl-C is not lost in code that cannot raise.

    Where a library's compiled code calls Python, as pydantic's does for each model that it builds
    during an import, a KeyboardInterrupt is dropped with "Exception ignored", and the command went
    on. It is raised again once that code has returned, or once more if it has not yet.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        again = threading.Timer(RAISED_AGAIN_AFTER, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def _usage(error: typer.TyperException) -> int:
    """Report a wrong use of the command and where its help is; return the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":  # its text has been printed: the help
        return EXIT_USAGE
    message = " ".join(error.format_message().split())
    say_error(message.rstrip(".").replace("Value error, ", ""))
    context = getattr(error, "ctx", None)
    if context is not None:
        sys.stderr.write(f"See {context.command_path} --help\n")
    return error.exit_code


def _teach_shells() -> None:
    """Typer knows no shell before it has been asked for the options that install completion."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()


def kubectl_complete(app: CommandGroup) -> None:
    """``kubectl_complete-quadrant``: kubectl calls it for the words after ``kubectl quadrant``."""
    from coordinator.cli.completion import answer_kubectl

    sys.exit(answer_kubectl(cast(TyperGroup, typer.main.get_command(app)), sys.argv[1:]))
