"""Every block of every page is run, or what it names is looked for."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from laboratory.cli.reference import command_page
from tests.conftest import ROOT
from tests.docs.pages import PAGES, Block, blocks, mistakes, name
from tests.docs.reader import FOLDERS, RUN_PAGES, START, read, starts_its_own
from tests.docs.terminal import Up

_CALL = re.compile(r"(?:^|[|(;] *|\bdo |\bif |/)quadrant ([a-z].*?)(?=$|[|;>&)])")
SERVED_PAGES = [
    page if page == START.page else pytest.param(page, marks=pytest.mark.all)
    for page in RUN_PAGES
    if not starts_its_own(page)
]
MADE_BY_HAND = re.compile(r"docker/secrets(/[\w.]*)?")
"""Files that only a reader's own commands make."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    page_blocks = blocks(page)
    assert [mistake for block in page_blocks for mistake in mistakes(block)] == []
    fences = re.findall(r"^ *```", page.read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(page_blocks)
    assert all(b.kind != "text" or "output" not in b.options for b in page_blocks[:1])
    for before, block in pairwise(page_blocks):
        assert "output" not in block.options or before.runs, block.place


@pytest.mark.parametrize(
    "block", [b for page in PAGES for b in blocks(page) if b.only_read], ids=lambda b: b.place
)
def test_blocks_that_are_not_run_name_existing_files_and_targets(block: Block) -> None:
    subprocess.run(["bash", "-n", "-c", block.text], check=True, timeout=10)
    for path in re.findall(rf"\b(?:{'|'.join(FOLDERS)})/[\w./-]+", block.text):
        assert MADE_BY_HAND.fullmatch(path) or (ROOT / path).exists(), (block.place, path)
    if block.options["needs"] == "make":
        for target in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
            subprocess.run(["make", "-n", target], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_options_of_every_command_exist(page: Path) -> None:
    """Also of those that are not run, or are only spoken of."""
    server, sections = reference()
    for command, options in _calls(page):
        section = next((s for n, s in sections.items() if command.startswith(n)), None)
        assert section is not None, command
        for option in options:
            is_documented = f"`{option}`" in section + server or option in ("--help", "-h")
            assert is_documented, (command, option)


@functools.cache
def reference() -> tuple[str, dict[str, str]]:
    """Rules for all commands, and the section of each by its title."""
    head, *parts = command_page().split("\n## ")
    return head, dict(part.split("\n", 1) for part in parts)


def _calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """``quadrant VERB ...`` of a page's blocks, and the options of each."""
    for block in blocks(page):
        if block.kind != "sh":
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            calls = _CALL.findall(line)
            for call in calls:
                words = shlex.split(call.partition(" #")[0])
                flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
                yield "quadrant " + " ".join(words) + " ", flags


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(START.text, tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", SERVED_PAGES, ids=name)
def test_every_command_block_does_what_the_page_says(
    page: Path, server: Up, tmp_path: Path
) -> None:
    read(page, server, tmp_path)
