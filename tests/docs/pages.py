"""Pages and their blocks, and what the words behind a fence mean.

``sh`` is run, all of a page in order (``exit=N``: it ends so); ``sh keeps`` is a server that runs
until the page ends; ``sh needs=...`` wants more than a machine with Python: ``needs=kubectl`` runs
where there is one, the others are not run, but what they name has to exist. ``text`` is shown;
``text output`` is what the block before it prints, line by line with other lines between;
``text output=unordered`` in whatever order.
Any other language with ``title=NAME`` is a file of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = frozenset(("kubectl", "make", "trace", "engine", "cluster", "slurm"))

_FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    kind: str
    options: dict[str, str]
    text: str

    @property
    def runs(self) -> bool:
        return self.kind == "sh" and self.options.get("needs", "kubectl") == "kubectl"

    @property
    def only_read(self) -> bool:
        return self.kind == "sh" and not self.runs

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for result in _FENCE.finditer(text):
        kind, *words = result[2].split() or [""]
        options = dict(word.partition("=")[::2] for word in words)
        line = text.count("\n", 0, result.start()) + 1
        yield Block(page, line, kind, options, result[3])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def mistakes(block: Block) -> list[str]:
    """Mistakes in the words behind a fence."""
    match block.kind, set(block.options):
        case "sh", given if given <= {"exit", "needs", "keeps"}:
            needs = block.options.get("needs", "kubectl")
            return [] if needs in NEEDS else [f"{block.place}: needs={needs} is not known"]
        case "text", given if given <= {"output"}:
            order = block.options.get("output", "")
            known = order in ("", "unordered")
            return [] if known else [f"{block.place}: output={order} is not known"]
        case (("yaml" | "csv" | "python" | "toml"), given) if given == {"title"}:
            return []
    return [f"{block.place}: nobody knows what to do with this block"]
