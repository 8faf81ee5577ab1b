"""The tests decide the same on any machine, whatever its user has set and keeps in the home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.kubernetes.servers.build import CACHE as SERVERS
from tests.kubernetes.servers.build import cache_folder as servers_folder
from tests.oracle.build import CACHE as PROGRAMS
from tests.oracle.build import cache_folder as programs_folder
from tests.surroundings import GO, Home, inherited

SOME = [
    "tests/coordinator/cli/test_kubeconfig.py",
    "tests/coordinator/cli/test_width.py",
    "tests/end_to_end/one_process/test_deletion.py::test_members_go_one_by_one",
    "tests/shared/settings",
]
"""Readers of the environment and the home, and a whole service."""

NOWHERE = "127.0.0.1:9"


def poisoned(home: Path) -> dict[str, str]:
    """The environment of a user who has everything set, and nothing of it right."""
    for name in (".ray/auth_token", ".kube/config", ".local/state/quadrant", ".config/quadrant"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("poison: [")
    return {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home / ".ray"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "KUBECONFIG": str(home / ".kube/config"),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "9",
        "QUADRANT_SHARDS": "many",
        "QUADRANT_SERVER": f"http://{NOWHERE}",
        "QUADRANT_TOKEN_FILE": str(home / "none"),
        "QUADRANT_REDIS_URL": f"redis://{NOWHERE}",
        "RAY_ADDRESS": NOWHERE,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "poison",
        "http_proxy": f"http://{NOWHERE}",
        "HTTPS_PROXY": f"http://{NOWHERE}",
        "COLUMNS": "20",
        "FORCE_COLOR": "1",
        "TZ": "Asia/Kathmandu",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def test_tests_pass_in_a_poisoned_home_and_environment(home: Path) -> None:
    """Each test has surroundings of its own; those of this process are clean, too."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SOME],
        cwd=ROOT,
        env=os.environ | poisoned(home),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_nothing_that_a_user_has_set_is_inherited(home: Path) -> None:
    expected = {"PATH": "/bin", "CI": "1", SERVERS: "/servers", PROGRAMS: "/programs"}
    assert inherited(poisoned(home) | expected) == expected | GO


def test_programs_that_are_built_once_are_in_no_home_of_a_test(home: Path) -> None:
    for folder in (servers_folder(), programs_folder()):
        assert not folder.is_relative_to(home), "it would be built in every run"


def test_only_a_home_that_was_left_empty_is_as_new() -> None:
    one = Home()
    assert one.is_as_new()
    (one.path / ".kube").mkdir()
    assert not one.is_as_new()
    one.remove()
    assert not one.is_as_new()


def test_every_test_has_an_empty_home_of_its_own(home: Path) -> None:
    assert os.environ["HOME"] == os.environ["XDG_RUNTIME_DIR"] == str(home)
    assert list(home.iterdir()) == []
    assert len(str(home)) < 30, "sockets below it have short paths"
