"""Answers in lines: a word in front, its text beside it, wrapped to the terminal's width."""

from __future__ import annotations

import shutil
import sys
import textwrap

from coordinator.cli.output.terminal import BOLD, painted

TIED = "\u00a0"
"""A space at which no line ends; written as a plain one."""
GAP = 8
"""Columns before the text."""
WIDEST = 120
NARROWEST = 40


def width() -> int:
    """Columns to write in: the terminal's, or 80 where nobody watches."""
    return max(NARROWEST, min(shutil.get_terminal_size((80, 24)).columns, WIDEST))


def block(word: str, paragraphs: list[str], *, columns: int) -> list[str]:
    """The word, then each paragraph on lines of its own; nothing where there are none."""
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += textwrap.wrap(
            paragraph,
            columns - GAP,
            break_long_words=False,
            break_on_hyphens=False,
            subsequent_indent="  " if len(paragraphs) > 1 else "",
        )
    return [
        f"{word if not i else '':<{GAP}}{line.replace(TIED, ' ')}" for i, line in enumerate(lines)
    ]


def painted_words(lines: list[str]) -> list[str]:
    """The words in front in bold, where there is colour."""
    return [
        painted(line[:GAP], BOLD, sys.stdout) + line[GAP:] if line[:GAP].strip() else line
        for line in lines
    ]
