"""The plugin that ``docs/plugins.md`` writes from nothing, installed as that page says."""

from __future__ import annotations

import inspect
import sys
import tomllib
from pathlib import Path

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.extension_points import EXTENSION_POINTS, NODE_ORDER
from shard_worker.framework.registration import Registration
from shared.policy.dialect import parse_policy
from tests.conftest import ROOT
from tests.docs.pages import blocks

PAGE = ROOT / "docs" / "plugins.md"


@pytest.fixture
def files() -> dict[str, str]:
    page_blocks = blocks(PAGE)
    return {block.options["title"]: block.text for block in page_blocks if "title" in block.options}


@pytest.fixture
def installed(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Install the page's package as an installer does: its module, and its entry points."""
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = tmp_path / f"lab_plugins-{project['version']}.dist-info"
    info.mkdir()
    entries = project["entry-points"]["quadrant.plugins"].items()
    listed = "\n".join(f"{name} = {at}" for name, at in entries)
    (info / "entry_points.txt").write_text(f"[quadrant.plugins]\n{listed}\n")
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    (tmp_path / "lab.py").write_text(files["lab.py"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lab", raising=False)
    return files


def test_it_takes_fifteen_lines(files: dict[str, str]) -> None:
    assert sum(1 for line in files["lab.py"].splitlines() if line.strip()) <= 15


def test_a_policy_names_it_once_it_is_installed(installed: dict[str, str]) -> None:
    session = open_session(parse_policy(installed["with-lab.yaml"]))
    assert session.spoken["lab"] == ["Predicate", "NodeOrder"]
    assert [hook.plugin for hook in session.rules(NODE_ORDER)] == ["lab"]
    assert not session.slow


def test_a_broken_one_is_told_by_name(
    installed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab.py").write_text("raise ImportError('no scanner')\n")
    monkeypatch.delitem(sys.modules, "lab", raising=False)
    with pytest.raises(ValueError, match=r"plugin lab: .*no scanner"):
        open_session(parse_policy(installed["with-lab.yaml"]))


def test_the_page_has_every_method_and_no_other() -> None:
    text = PAGE.read_text()
    methods = {n for n, _ in inspect.getmembers(Registration, inspect.isfunction)}
    methods = {name for name in methods if name.startswith("add_")}
    reports = {word for word in text.replace("(", "`").split("`") if word.startswith("add_")}
    assert reports == methods
    assert len(methods) >= len(EXTENSION_POINTS)
