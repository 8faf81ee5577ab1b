"""The page about KAI: its tables agree with the code."""

from __future__ import annotations

import re

import pytest

from coordinator.jobs.capability import BoundKind
from coordinator.objects.kai import NO_QUEUE, NOT_PLACED
from shared.policy.kai import parse_kai
from shared.policy.kai_names import (
    PROCESS_OPTIONS,
    REFUSED_PLUGINS,
    WITHOUT_EFFECT,
)
from shared.policy.model import PolicyError
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "from-kai.md").read_text()


def first_cells(page: str, head: str) -> list[str]:
    """The names in the first column of the table that begins with this line."""
    rows = page.split(f"{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    cells = [row.split("|")[1] for row in rows]
    return [result[0] for cell in cells if (result := re.findall(r"`([^`]+)`", cell))]


def test_every_option_about_the_process_is_told_with_ours() -> None:
    assert first_cells(PAGE, "| option | default | here |") == [*PROCESS_OPTIONS]
    assert all(ours in PAGE for _, ours in PROCESS_OPTIONS.values())
    assert first_cells(PAGE, "| option | why |") == [*WITHOUT_EFFECT]


@pytest.mark.parametrize("name", PROCESS_OPTIONS)
def test_such_an_option_is_refused_with_ours_named(name: str) -> None:
    default, ours = PROCESS_OPTIONS[name]
    parse_kai({"options": {name: default}})
    with pytest.raises(PolicyError) as refused:
        parse_kai({"options": {name: "something-else"}})
    assert ours in str(refused.value)


def test_every_refused_plugin_is_on_the_page() -> None:
    for name in REFUSED_PLUGINS:
        assert f"`{name}`" in PAGE, name


def test_kais_reasons_are_those_of_the_page() -> None:
    report = first_cells(PAGE, "| reason | when | what helps |")
    assert report == [*(kind.value for kind in BoundKind), NO_QUEUE, NOT_PLACED]
