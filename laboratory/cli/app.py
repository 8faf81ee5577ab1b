"""The commands ``quadrant`` and ``kubectl quadrant``, with the subcommands of every room."""

from __future__ import annotations

from coordinator.cli import app as program
from laboratory.cli.catalogue import ENTRIES

app = program.application(ENTRIES)


def main() -> None:
    """``quadrant ...``"""
    program.main(app)


def run(arguments: list[str], prog_name: str | None = None) -> int:
    """Run it in this process; the exit code."""
    return program.run(app, arguments, prog_name)


def kubectl_plugin() -> None:
    """``kubectl quadrant ...``: the same command."""
    program.main(app, "kubectl quadrant")


def kubectl_complete() -> None:
    """``kubectl_complete-quadrant``: kubectl calls it for the words after ``kubectl quadrant``."""
    program.kubectl_complete(app)
