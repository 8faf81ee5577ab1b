"""A reader who does what a page says, block after block."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.pages import PAGES, Block, blocks
from tests.docs.terminal import Up, kubectl, run

START = next(b for b in blocks(ROOT / "docs/quickstart.md") if "keeps" in b.options)
"""How the pages begin: the server that all of them ask, unless they start their own."""
RUN_PAGES = [page for page in PAGES if any(block.runs for block in blocks(page))]
FOLDERS = ("examples", "docker", "k8s", "tests", "docs")


def starts_its_own(page: Path) -> bool:
    """Whether the page has a server of its own, with a policy or nodes that others do not have."""
    return any("keeps" in b.options and b.text != START.text for b in blocks(page))


def read(page: Path, server: Up | None, tmp_path: Path) -> None:
    """Run the page's blocks, and compare what they print with what the page shows. ``server``: the
    one to ask until the page starts its own."""
    for folder in FOLDERS:
        (tmp_path / folder).symlink_to(ROOT / folder)
    results = [b for b in blocks(page) if not b.only_read]
    left_out = [b for b in results if b.options.get("needs") == "kubectl" and kubectl() is None]
    printed: dict[int, str] = {}
    with ExitStack() as stack:
        running_server, part = server, list[Block]()
        for block in [b for b in results if b not in left_out]:
            if "keeps" not in block.options:
                part.append(block)
            elif block.text != START.text:
                printed |= run(part, tmp_path, running_server)
                part = []
                running_server = stack.enter_context(Up(block.text, tmp_path, shards=1))
        printed |= run(part, tmp_path, running_server)
    for before, block in pairwise(results):
        if "output" in block.options and before not in left_out:
            _compare(block, printed[before.line])
    if left_out:
        pytest.skip("no kubectl on PATH and none named by $KUBECTL: its blocks were not run")


def _compare(block: Block, printed: str) -> None:
    every = _words(printed)
    lines = iter(every)
    for expected in _words(block.text):
        if block.options["output"] == "unordered":
            lines = iter(every)
        result = any(expected in line for line in lines)
        assert result, f"{block.place}: {expected!r} is not where it should be in:\n{printed}"


def _words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
