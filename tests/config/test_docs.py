"""The page about policies: its commands are run as written, its tables are held to the code.

A block's info string says what it is: ``yaml title=NAME`` is written to that file, ``sh`` is run
(``exit=N``: it ends so), ``text output`` is what the command before it prints, line by line with
other lines between. ``needs=...`` marks what wants more than a shell; it is only parsed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.policy_names import ACTIONS_HERE, PLUGINS_HERE, VOLCANO_ACTIONS, VOLCANO_PLUGINS
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "policy.md"


@dataclass(frozen=True)
class Block:
    kind: str
    options: dict[str, str]
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(\w+)(.*)\n((?:.*\n)*?)```$", text, re.M):
        options = dict(part.partition("=")[::2] for part in found[2].split())
        yield Block(found[1], options, found[3], text.count("\n", 0, found.start()) + 1)


def run(block: Block, directory: Path) -> str:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", block.text],
        cwd=directory,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            "NO_COLOR": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == int(block.options.get("exit", "0")), (block.line, done.stdout)
    return done.stdout


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_every_command_block_does_what_the_page_says(tmp_path: Path) -> None:
    ran, printed = 0, ""
    for block in blocks(PAGE.read_text()):
        if "title" in block.options:
            (tmp_path / block.options["title"]).write_text(block.text)
        elif block.kind == "sh" and "needs" in block.options:
            subprocess.run(["bash", "-n", "-c", block.text], check=True, timeout=10)
        elif block.kind == "sh":
            printed = run(block, tmp_path)
            ran += 1
        elif "output" in block.options:
            lines = iter(words(printed))
            for wanted in words(block.text):
                assert any(wanted in line for line in lines), (block.line, wanted, printed)
    assert ran >= 3


def test_no_block_is_left_out_by_its_form() -> None:
    text = PAGE.read_text()
    assert len(re.findall(r"^```", text, re.M)) == 2 * len(list(blocks(text)))
    assert {block.kind for block in blocks(text)} == {"sh", "text", "yaml"}


@pytest.mark.parametrize(
    ("head", "here", "volcano"),
    [("action", ACTIONS_HERE, VOLCANO_ACTIONS), ("plugin", PLUGINS_HERE, VOLCANO_PLUGINS)],
)
def test_the_page_tells_of_each_name_whether_it_is_here(
    head: str, here: tuple[str, ...], volcano: frozenset[str]
) -> None:
    table = PAGE.read_text().split(f"| {head} | |\n")[1].split("\n\n")[0]
    told: dict[str, bool] = {}
    for row in table.splitlines()[1:]:
        names, text = row.strip("| ").split(" | ", 1)
        assert text.startswith(("here", "not yet")), row
        told |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), text.startswith("here"))
    assert told == {name: name in here for name in volcano}
