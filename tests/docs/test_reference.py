"""Pages made from the code, and the links between pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.cli.plugin_reference import unexplained
from laboratory.cli.catalogue import ENTRIES
from laboratory.cli.reference import pages
from shared.policy.volcano_names import PLUGINS_HERE
from shared.settings.settings import PREFIX, Settings
from tests.conftest import ROOT
from tests.docs.pages import PAGES, name


@pytest.mark.parametrize("path", sorted(pages()))
def test_a_page_that_is_made_is_as_the_code_is(path: str) -> None:
    assert (ROOT / "docs" / path).read_text() == pages()[path], "run: make reference"


def test_every_command_and_every_setting_is_told() -> None:
    page_list = pages()
    for entry in ENTRIES:
        assert re.search(
            rf"^## quadrant {entry.name}\b", page_list["reference/cli.md"], re.MULTILINE
        )
    for setting in Settings.model_fields:
        assert f"| `{PREFIX}{setting.upper()}` |" in page_list["reference/settings.md"]


def test_every_argument_of_every_plugin_is_told_and_no_other() -> None:
    assert unexplained() == []
    text = (ROOT / "docs" / "reference" / "plugins.md").read_text()
    assert all(f"\n## {plugin}\n" in text for plugin in PLUGINS_HERE)


def test_the_readme_names_every_command() -> None:
    table = (ROOT / "README.md").read_text().split("| command |")[1].split("\n\n")[0]
    report = set(re.findall(r"`(?:quadrant )?([a-z]+)", table))
    assert {entry.name for entry in ENTRIES} - {"version"} <= report


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_contributing_names_every_folder_of_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert sorted(f for f in folders if f"`tests/{f}" not in text) == []
