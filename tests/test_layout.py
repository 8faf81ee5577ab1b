"""The shape of the repository: four rooms, one direction, and what a fresh clone needs."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

ROOMS = ("laboratory", "coordinator", "shard_worker", "shared")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
MOST_ENTRIES = 20
SMALL_ON_PURPOSE: dict[str, str] = {}
"""Folders with fewer than two entries, and why."""


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_imports_go_down_only_and_the_checker_has_none(tmp_path: Path) -> None:
    """Every contract holds, and every one would notice: a copy with a wrong import for each of them
    breaks them all."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    result = lint_imports(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    for contract in CONTRACTS:
        low, high = forbidden_import(contract)
        with file_of(tmp_path, low).open("a") as file:
            file.write(f"\nimport {high}\n")
    broken = lint_imports(tmp_path)
    assert broken.returncode == 1
    for contract in CONTRACTS:
        assert f"{contract['name']} BROKEN" in broken.stdout, broken.stdout


def forbidden_import(contract: dict[str, Any]) -> tuple[str, str]:
    """A module and another one that it may not import."""
    match contract["type"]:
        case "layers":
            return ends(contract)
        case "independence":
            return contract["modules"][-2], contract["modules"][-1]
        case _:
            module = contract["forbidden_modules"][0]
            return contract["source_modules"][0], module.replace("laboratory.*", "shared.errors")


def ends(contract: dict[str, Any]) -> tuple[str, str]:
    """A module of the lowest floor and one of the highest; of one floor alone, two of it."""
    (container,) = contract.get("containers", [""])
    floors = [floor.split(" | ") for floor in contract["layers"]]
    low, high = floors[-1][-1], floors[0][0]
    return f"{container}.{low}".lstrip("."), f"{container}.{high}".lstrip(".")


def file_of(directory: Path, module: str) -> Path:
    path = directory / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and under TYPE_CHECKING count too. CycleError names the circle."""
    TopologicalSorter(imports()).prepare()


def test_no_folder_imports_itself_by_way_of_others() -> None:
    """A folder and those within it are one."""
    graph: dict[str, set[str]] = {}
    for module, imported in imports().items():
        folder = folder_of(module)
        others = {folder_of(name) for name in imported}
        graph.setdefault(folder, set()).update(
            other
            for other in others
            if not f"{other}.".startswith(f"{folder}.") and not f"{folder}.".startswith(f"{other}.")
        )
    TopologicalSorter(graph).prepare()


def folder_of(module: str) -> str:
    path = ROOT / module.replace(".", "/")
    return module if path.is_dir() else module.rpartition(".")[0]


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of the four rooms that it imports, anywhere in its file."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    modules = {module_of(path): path for path in paths}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= parts & modules.keys() or {node.module}
        graph[module] = names & modules.keys() - {module}
    return graph


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_no_folder_is_a_flat_list_or_a_shell() -> None:
    """Files and folders of each folder, its ``__init__.py`` not counted."""
    entries = {
        str(folder.relative_to(ROOT)): sum(
            path.suffix == ".py" or path.is_dir()
            for path in folder.iterdir()
            if path.name not in ("__init__.py", "__pycache__")
        )
        for room in ROOMS
        for folder in {path.parent for path in (ROOT / room).rglob("*.py")}
    }
    assert {folder: n for folder, n in entries.items() if n > MOST_ENTRIES} == {}
    assert {folder for folder, n in entries.items() if n < 2} == set(SMALL_ON_PURPOSE)


def test_the_top_level_has_the_named_folders() -> None:
    for name in (*ROOMS, "tests", "docs", "docs/decisions", ".ci/run", "Makefile", "README.md"):
        assert (ROOT / name).exists(), name
    for name in ("LICENSE", "CONTRIBUTING.md", "requirements.lock", "requirements-dev.lock"):
        assert (ROOT / name).is_file(), name


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for folder in folders:
        assert (folder / "__init__.py").is_file(), folder


def test_the_architecture_page_is_short_and_names_what_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert len(text.splitlines()) <= 150
    paths = {word for word in re.findall(r"`([\w/.]+)`", text) if word.split("/")[0] in ROOMS}
    assert len(paths) > 30
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    for room in ROOMS:
        for folder in (path.parent for path in (ROOT / room).glob("*/__init__.py")):
            assert folder.name in text, f"{folder.relative_to(ROOT)} is not on the page"


def test_every_dependency_is_locked_with_a_hash() -> None:
    locked = (ROOT / "requirements.lock").read_text()
    expected = [re.split(r"[<>=\[ ]", entry)[0] for entry in PROJECT["project"]["dependencies"]]
    for name in (*expected, "hatchling"):
        assert re.search(rf"^{re.escape(name)}==\S+.* \\\n    --hash=sha256:", locked, re.M), name


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "pyproject.toml"])
def test_no_file_says_where_packages_come_from(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text


def test_development_lock_has_the_same_versions() -> None:
    def versions(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.M))

    assert versions("requirements.lock") <= versions("requirements-dev.lock")


def test_every_dependency_has_its_reason_in_the_decisions() -> None:
    (decision,) = (ROOT / "docs" / "decisions").glob("*-dependencies.md")
    text = decision.read_text().lower()
    extras = PROJECT["project"]["optional-dependencies"]
    for entry in [
        *PROJECT["project"]["dependencies"],
        *(name for extra in extras.values() for name in extra),
    ]:
        name = re.split(r"[<>=\[ ]", entry)[0]
        assert f"`{name}`" in text, f"{name} is not explained in {decision.name}"
