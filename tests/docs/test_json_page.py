"""The page about the JSON of each command names the fields that the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laboratory.cli.reference import command_page
from tests.docs.json_page import (
    ELSEWHERE,
    LONG,
    OBJECTS,
    OF_THE_MOMENT,
    PAGE,
    SERVED,
    SHORT,
    paths,
    short_shapes,
)


def test_every_command_with_json_is_on_the_page_or_argued() -> None:
    sections = re.split(r"^## quadrant ", command_page(), flags=re.MULTILINE)[1:]
    commands = {section.partition("\n")[0] for section in sections if "| `--output`" in section}
    assert commands == {*LONG, *SHORT, *SERVED, *OBJECTS, *ELSEWHERE}
    titles = set(re.findall(r"^## quadrant (.*)$", PAGE.read_text(), re.MULTILINE))
    assert titles == {*LONG, *SHORT, *SERVED}


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_fields_of_every_short_command_are_on_the_page(tmp_path: Path) -> None:
    text = PAGE.read_text()
    served = {name: call for name, call in SERVED.items() if name not in OF_THE_MOMENT}
    for command, shape in short_shapes(tmp_path, served).items():
        section = text.split(f"## quadrant {command}\n\n```text\n")[1].split("\n```")[0]
        missing = paths(shape.lines()) - paths(section.splitlines())
        assert missing == set(), f"{command}: run python -m tests.docs.json_page"
