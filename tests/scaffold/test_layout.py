"""The shape of the repository: three rooms, one direction, and what a fresh clone needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

ROOMS = ("coordinator", "shard_worker", "shared")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LONGEST_FILE = 450


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


def test_imports_go_one_way_and_the_checker_has_none(tmp_path: Path) -> None:
    """The contracts hold, and they would notice: a copy with wrong imports breaks both."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    kept = lint_imports(tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    with (tmp_path / "shared" / "slots.py").open("a") as file:
        file.write("\nimport coordinator.child\n")
    with (tmp_path / "coordinator" / "checker" / "report.py").open("a") as file:
        file.write("\nimport coordinator.cpu\n")
    broken = lint_imports(tmp_path)
    assert broken.returncode == 1
    assert "Contracts: 0 kept, 2 broken." in broken.stdout
    assert "shared.slots -> coordinator.child" in broken.stdout
    assert "coordinator.checker.report -> coordinator.cpu" in broken.stdout


def test_top_level_holds_what_it_should() -> None:
    for name in (*ROOMS, "tests", "docs", "docs/decisions", ".ci/run", "Makefile", "README.md"):
        assert (ROOT / name).exists(), name
    for name in ("LICENSE", "CONTRIBUTING.md", "requirements.lock", "requirements-dev.lock"):
        assert (ROOT / name).is_file(), name


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    for folder in folders:
        assert (folder / "__init__.py").is_file(), folder


def test_no_file_has_grown_out_of_one_concept() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_the_map_of_files_names_files_that_exist() -> None:
    """A row of the map names a path first; later names in it may be beside that one."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = [re.findall(r"`([\w/.*]+)`", line) for line in text.split("| concept |")[1].splitlines()]
    rows = [row for row in rows if row and "/" in row[0] and line_is_path(row[0])]
    assert len(rows) > 15
    for first, *others in rows:
        beside = (ROOT / first.rstrip("/")).parent
        assert list(ROOT.glob(first.rstrip("/"))), first
        for name in others:
            found = [*ROOT.glob(name.rstrip("/")), *beside.glob(name.rstrip("/"))]
            assert found, f"{name} (in the row of {first})"


def line_is_path(name: str) -> bool:
    return name.split("/", maxsplit=1)[0] in ROOMS


def test_every_dependency_is_locked_with_a_hash() -> None:
    locked = (ROOT / "requirements.lock").read_text()
    wanted = [re.split(r"[<>=\[ ]", entry)[0] for entry in PROJECT["project"]["dependencies"]]
    for name in (*wanted, "hatchling"):
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
