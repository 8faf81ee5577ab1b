"""The command ``quadrant``.

Ray, NumPy and aiohttp take a second to import, so that nothing here imports them before a
command runs that needs them: ``quadrant --help`` answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

import typer
from rich.console import Console

from coordinator.commands.bench import bench
from coordinator.commands.demo import demo
from coordinator.commands.doctor import doctor
from coordinator.commands.failure import EXIT_ERROR, EXIT_INTERRUPTED, CommandError
from coordinator.commands.up import up

app = typer.Typer(
    name="quadrant",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Schedule gangs of tasks on a cluster that is cut into shards\n\n"
        "A coordinator orders the jobs, one worker per shard places them in parallel, and a ledger "
        "accepts or refuses every placement before anything is bound.\n\n"
        "Start with: quadrant demo"
    ),
)

app.command("demo")(demo)
app.command("up")(up)
app.command("bench")(bench)
app.command("doctor")(doctor)


@app.command()
def version() -> None:
    """Print the version"""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        number = installed("quadrant")
    except PackageNotFoundError:
        number = "<unknown>"
    typer.echo(f"quadrant {number}")


def _delegate(name: str, module: str, help_text: str) -> None:
    """A subcommand with an application of its own, imported only when it is called."""

    def call(ctx: typer.Context) -> Any:
        sub = importlib.import_module(module).app
        return sub(args=ctx.args, prog_name=f"quadrant {name}", standalone_mode=True)

    app.command(
        name,
        help=help_text,
        add_help_option=False,
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        },
    )(call)


_delegate("chaos", "coordinator.commands.chaos", "Break things on purpose, and check histories")
_delegate("config", "coordinator.commands.config", "Check a policy file; show what counts here")
_delegate("replay", "coordinator.commands.replay", "Decide a recorded cluster state step by step")


def main() -> None:
    """Run the command; a user's mistake ends in one sentence and an exit code, not a traceback."""
    try:
        app()
    except CommandError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"Error: {error}", markup=False)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away: nobody to tell
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
