"""The Dockerfile: what it copies is enough for the wheel, and what runs is not root."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from shared.settings.settings import load_settings
from tests.deploy.commands import check_command, entry_points
from tests.deploy.rendered import ROOT, dockerfile, values_of

GLOBAL, BUILD, RUN = range(3)


def copied() -> list[str]:
    """Paths of the project that go into the build stage."""
    lines = values_of(dockerfile()[BUILD], "COPY")
    return [source.rstrip("/") for line in lines for source in line.split()[:-1]]


def test_two_stages_of_the_same_python() -> None:
    assert len(dockerfile()) == 3
    (image,) = values_of(dockerfile()[GLOBAL], "ARG")
    name, _, default = image.partition("=")
    assert [values_of(stage, "FROM") for stage in dockerfile()[1:]] == [
        [f"${{{name}}} AS build"],
        [f"${{{name}}} AS run"],
    ]
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert required == ">=3.11"
    assert "python:3.11-" in default


def test_the_lock_is_installed_with_its_hashes() -> None:
    runs = values_of(dockerfile()[BUILD], "RUN")
    (locked,) = [r for r in runs if "requirements.lock" in r]
    assert "--require-hashes" in locked
    (ours,) = [r for r in runs if "install --no-deps" in r]
    assert "--no-build-isolation" in ours, "a build backend from elsewhere would not be locked"
    order = [i.text for i in dockerfile()[BUILD]]
    assert order.index(locked) < next(n for n, t in enumerate(order) if t.startswith("shared/"))


def test_the_image_does_not_run_as_root() -> None:
    stage = dockerfile()[RUN]
    assert values_of(stage, "USER") == ["65532:65532"]
    names = [i.name for i in stage]
    after = names[names.index("USER") :]
    assert not {"RUN", "COPY", "ADD"} & set(after)
    assert not values_of(stage, "ADD")
    assert not [t for s in dockerfile() for t in values_of(s, "RUN") if "chmod" in t or "sudo" in t]


def test_the_command_is_the_coordinator_in_exec_form() -> None:
    (command,) = values_of(dockerfile()[RUN], "CMD")
    assert command.startswith("[")
    check_command([word.strip(' "') for word in command.strip("[]").split(",")])
    assert not values_of(dockerfile()[RUN], "ENTRYPOINT"), "the role is the command"
    assert {"quadrant", "ray"} <= entry_points()


def test_labels_and_environment() -> None:
    (labels,) = values_of(dockerfile()[RUN], "LABEL")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for label in ("title", "description", "licenses", "version", "revision", "created"):
        assert f"org.opencontainers.image.{label}=" in labels
    assert f"VERSION={project['version']}" in values_of(dockerfile()[RUN], "ARG")
    assert project["license"] in labels
    (env,) = values_of(dockerfile()[RUN], "ENV")
    names = {word.split("=")[0] for word in env.split() if word.startswith("QUADRANT_")}
    assert names <= {f"QUADRANT_{name.upper()}" for name in type(load_settings()).model_fields}


def test_the_build_context_has_the_copied_files_and_no_more() -> None:
    lines = (ROOT / "docker/Dockerfile.dockerignore").read_text().split("\n")
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {rule[1:].rstrip("/") for rule in rules if rule.startswith("!")}
    assert let_in == set(copied())
    for secret in ("docker/secrets/redis_password", ".git/config", ".venv/bin/python"):
        assert not any(fnmatch.fnmatch(secret, f"{name}*") for name in let_in)


def test_the_wheel_is_whole_with_only_the_copied_files(tmp_path: Path) -> None:
    """Built as the image does it, offline, from a directory that has nothing else."""
    source = tmp_path / "src"
    source.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = (source / "dist").glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for package in ("coordinator", "shard_worker", "shared"):
        for path in (source / package).rglob("*"):
            if path.is_file():
                assert str(path.relative_to(source)) in inside
    assert [name for name in inside if name.endswith(".lua")]
