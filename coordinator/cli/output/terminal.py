"""Terminal output: colour where it is wanted, width, progress."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

BOLD = "1"
RED = "31"
GREEN = "32"
YELLOW = "33"
DIM = "2"
UNWATCHED = 250
"""Columns where nobody watches."""
NARROWEST = 40
"""Columns; on a terminal with fewer, lines are wrapped by the terminal."""

STYLES = {
    **dict.fromkeys(("Failed", "NotReady", "Unschedulable", "Lost", "Aborted", "False"), RED),
    **dict.fromkeys(("Pending", "Terminating", "Warning", "Closed", "Closing"), YELLOW),
    **dict.fromkeys(("Running", "Ready", "Open", "Up", "Bound"), GREEN),
    **dict.fromkeys(("Succeeded", "Completed", "<none>", "<unknown>"), DIM),
}
"""How a word in a cell is shown."""


def colours(stream: TextIO) -> bool:
    """Whether to use colours: ``NO_COLOR`` takes precedence over ``FORCE_COLOR``, both over the
    kind of stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, stream: TextIO) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and colours(stream) else text


def painter(stream: TextIO) -> Callable[[str, str], str] | None:
    """For the cells of a table: headers bold, words that tell a state in their colour."""
    if not colours(stream):
        return None

    def paint(head: str, cell: str) -> str:
        style = STYLES.get(cell.strip().partition(",")[0], "") if head else BOLD
        return f"\x1b[{style}m{cell}\x1b[0m" if style else cell

    return paint


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal; None where nobody watches, so that nothing is broken into lines."""
    if not stream.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns)


def console() -> Console:
    """A console for stdout. If that is no terminal, tables are as wide as they need to be, for grep
    and cut."""
    from rich.console import Console

    output = Console(highlight=False)
    if not output.is_terminal and "COLUMNS" not in os.environ:
        output.width = UNWATCHED
    return output


def hint_to_path() -> str:
    """``quadrant is .venv/bin/quadrant here`` where the shell would not find the command."""
    if shutil.which("quadrant") is not None or not sys.argv[0].endswith("quadrant"):
        return ""
    path = min(os.path.relpath(sys.argv[0]), sys.argv[0], key=len)
    return f"quadrant is {path} here"


def say_error(message: str) -> None:
    """On stderr, in the one form that errors have."""
    sys.stdout.flush()
    sys.stderr.write(f"{painted('Error:', f'{BOLD};{RED}', sys.stderr)} {message}\n")
