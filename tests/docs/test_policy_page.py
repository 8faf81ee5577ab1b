"""The page about Volcano: its tables agree with the code."""

from __future__ import annotations

import re

import pytest

from shared.policy.volcano_names import ACTIONS_HERE, PLUGINS_HERE, VOLCANO_ACTIONS, VOLCANO_PLUGINS
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "from-volcano.md"


@pytest.mark.parametrize(
    ("head", "here", "volcano"),
    [("action", ACTIONS_HERE, VOLCANO_ACTIONS), ("plugin", PLUGINS_HERE, VOLCANO_PLUGINS)],
)
def test_the_page_tells_of_each_name_whether_it_is_here(
    head: str, here: tuple[str, ...], volcano: frozenset[str]
) -> None:
    table = PAGE.read_text().split(f"| {head} | |\n")[1].split("\n\n")[0]
    reports: dict[str, bool] = {}
    for row in table.splitlines()[1:]:
        names, text = row.strip("| ").split(" | ", 1)
        assert text.startswith(("here", "not yet")), row
        reports |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), text.startswith("here"))
    assert reports == {name: name in here for name in volcano}
