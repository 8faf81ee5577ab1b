"""The Go programs that run other schedulers' own code: built once, and kept outside the tree.

``python -m tests.oracle.build`` builds what is missing. The sources are beside this file; versions
are those of each program's ``go.mod``, held by the hashes of its ``go.sum``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from shared.die_with_parent import die_with_parent

FOLDER = Path(__file__).parent
PROGRAMS = ("volcano", "kai")
SHARED = "protocol"
"""The module that all programs have in common."""
BUILD_SECONDS = 1800.0
CACHE = "ORACLE_PROGRAMS"
"""Variable with another folder for the programs than one in the user's cache."""


def cache_folder() -> Path:
    root = os.environ.get(CACHE)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) if root else Path(caches) / "quadrant" / "oracle"


def program(name: str) -> Path:
    """The binary of this state of the sources; another state is built beside it."""
    digest = hashlib.sha256()
    for folder in (name, SHARED):
        for file in sorted((FOLDER / folder).iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
    return cache_folder() / f"{name}-{digest.hexdigest()[:16]}"


def version(name: str, module: str) -> str:
    """Version of the module in a program's ``go.mod``."""
    required = re.search(rf"{re.escape(module)} (v\S+)", (FOLDER / name / "go.mod").read_text())
    if required is None:
        raise ValueError(f"{name}/go.mod does not require {module}")
    return required[1]


def build(name: str) -> Path:
    """Build the program if this state of it is missing. Raises SystemExit where Go is absent or
    fails."""
    binary = program(name)
    binary.parent.mkdir(parents=True, exist_ok=True)
    with (binary.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second build waits for the first and finds its result
        if not binary.is_file():
            _go_build(name, binary)
    return binary


def _go_build(name: str, binary: Path) -> None:
    if shutil.which("go") is None:
        sys.exit("no `go` on PATH: install Go 1.26 or newer to build the oracle")
    begin = time.monotonic()
    print(f"Building {name}'s oracle into {binary} (once)", file=sys.stderr)  # noqa: T201
    partial = binary.with_suffix(".partial")  # renamed when whole: an interrupted build is no cache
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(partial)]
    result = subprocess.run(
        [*command, "."],
        cwd=FOLDER / name,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        preexec_fn=die_with_parent(),
        timeout=BUILD_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        sys.exit(f"`go build` in {FOLDER / name} failed with {result.returncode}")
    partial.rename(binary)
    print(f"Built in {time.monotonic() - begin:.0f} s", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    for each in PROGRAMS:
        print(build(each))  # noqa: T201
