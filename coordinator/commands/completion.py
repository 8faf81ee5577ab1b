"""``quadrant completion``: the script of a shell, and the answers to kubectl's own completion."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from enum import StrEnum
from typing import Annotated

import typer

PROGRAM = "quadrant"
VARIABLE = "_QUADRANT_COMPLETE"

NO_FILES = 4
"""kubectl's word for: offer these and no names of files."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell")]) -> None:
    """Print the completion script of a shell

    Kinds and names of objects come from the server.

    Examples:

      source <(quadrant completion bash)

      quadrant completion fish > ~/.config/fish/completions/quadrant.fish
    """
    _shell_complete(f"source_{shell.value}")


def answer_kubectl(words: list[str]) -> int:
    """Words after ``kubectl quadrant``, the last one unfinished; the answer in kubectl's form: one
    proposal a line, and a directive."""
    found = proposals(words[:-1], words[-1] if words else "")
    sys.stdout.write("".join(f"{line}\n" for line in found) + f":{NO_FILES}\n")
    return 0


def proposals(before: list[str], incomplete: str) -> list[str]:
    """What may stand next, by the same rules as in the shells' scripts."""
    os.environ["COMP_WORDS"] = " ".join(map(_quoted, [PROGRAM, *before, incomplete]))
    os.environ["COMP_CWORD"] = str(len(before) + 1)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        _shell_complete("complete_bash")
    return told.getvalue().split()


def _shell_complete(instruction: str) -> None:
    from typer.completion import get_completion_inspect_parameters, shell_complete

    from coordinator.cli import app

    get_completion_inspect_parameters()  # typer learns the shells only here
    shell_complete(typer.main.get_command(app), {}, PROGRAM, VARIABLE, instruction)


def _quoted(word: str) -> str:
    return shlex.quote(word) if word else ""
