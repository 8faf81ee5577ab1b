"""``quadrant completion``: the script of a shell, and the answers to kubectl's own completion."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from enum import StrEnum
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

PROGRAM = "quadrant"
VARIABLE = "_QUADRANT_COMPLETE"

NO_FILES = 4
"""kubectl's word for: offer these and no names of files."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="The shell")]
) -> None:
    """Print the completion script of a shell

    Kinds and names of objects come from the server.

    Examples:

      source <(quadrant completion bash)

      quadrant completion fish > ~/.config/fish/completions/quadrant.fish
    """
    _shell_complete(cast(TyperGroup, context.find_root().command), f"source_{shell.value}")


def answer_kubectl(command: TyperGroup, words: list[str]) -> int:
    """Words after ``kubectl quadrant``, the last one unfinished; the answer in kubectl's form: one
    proposal a line, and a directive."""
    proposed = proposals(command, words[:-1], words[-1] if words else "")
    sys.stdout.write("".join(f"{line}\n" for line in proposed) + f":{NO_FILES}\n")
    return 0


def proposals(command: TyperGroup, before: list[str], incomplete: str) -> list[str]:
    """Complete the next word by the same rules as the shells' scripts."""
    os.environ["COMP_WORDS"] = " ".join(map(_quoted, [PROGRAM, *before, incomplete]))
    os.environ["COMP_CWORD"] = str(len(before) + 1)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        _shell_complete(command, "complete_bash")
    return output.getvalue().split()


def _shell_complete(command: TyperGroup, instruction: str) -> None:
    from typer.completion import get_completion_inspect_parameters, shell_complete

    get_completion_inspect_parameters()  # typer learns the shells only here
    shell_complete(command, {}, PROGRAM, VARIABLE, instruction)


def _quoted(word: str) -> str:
    return shlex.quote(word) if word else ""
