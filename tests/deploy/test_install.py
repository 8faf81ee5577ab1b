"""``.ci/install``: what somebody sees who runs ``make run`` for the first time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT


def _wheel(folder: Path, name: str) -> str:
    """Write an empty package, and return its line of a lock file."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An empty environment with this one's pip."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    spec = find_spec("pip")
    assert spec is not None and spec.origin is not None
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "venv/lib" / version / "site-packages/pip").symlink_to(Path(spec.origin).parent)
    return tmp_path / "venv/bin/python"


def test_install_names_each_package_and_how_many_are_left(python: Path, tmp_path: Path) -> None:
    lines = [_wheel(tmp_path, name) for name in ("first", "second")]
    elsewhere = 'other==1.0 ; sys_platform == "nowhere" --hash=sha256:' + "0" * 64
    (tmp_path / "some.lock").write_text("\n".join([elsewhere, *lines, ""]))
    result = subprocess.run(
        [ROOT / ".ci/install", python, tmp_path / "some.lock"],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # How many are unpacked is said every three seconds: on a busy machine, of these two as well.
    printed = [line for line in result.stdout.splitlines() if not line.startswith("  unpacked ")]
    assert [line.split(" into ")[0] for line in printed] == [
        f"Installing the packages of {tmp_path}/some.lock (once)",
        "  1 of 2  first-1.0-py3-none-any.whl",
        "  2 of 2  second-1.0-py3-none-any.whl",
        "  unpacking 2 packages",
    ]


def test_failed_install_fails(python: Path, tmp_path: Path) -> None:
    (tmp_path / "some.lock").write_text("missing==1.0 --hash=sha256:" + "0" * 64 + "\n")
    result = subprocess.run(
        [ROOT / ".ci/install", python, tmp_path / "some.lock"],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode != 0
    assert "missing" in result.stderr
