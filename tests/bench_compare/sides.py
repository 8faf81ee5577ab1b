"""The two sides: the working tree as it is, and a revision in a worktree of its own.

The worktree, its environment and everything that a bench leaves behind are below one temporary
directory, which is gone at the end, also after an interruption.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench_compare.comparison import Figures, NotMeasured, Side, figures_of

LOCK = "requirements.lock"
RUN_SECONDS = 1_800.0
"""A bench that takes longer than this hangs: wide takes two to four minutes."""
STOP_SECONDS = 90.0
"""How long an interrupted bench may take to stop its processes; its own supervisor gives each of
them some ten seconds, one after the other."""
SAID = 2_000
"""Characters of what a failed run said last that are repeated."""


class NoSuchRevision(Exception):
    """The base that was named is no commit here."""


@dataclass(frozen=True, slots=True)
class MeasuredCheckout:
    """Where one side's code is, and the interpreter that has its dependencies."""

    code: Path
    python: Path


@dataclass(frozen=True, slots=True)
class Sides:
    """Measures either side under one policy."""

    places: dict[Side, MeasuredCheckout]
    policy: Path
    """The same file for both. As a variable: older revisions have no ``bench --policy``."""
    scratch: Path
    """Run directories of the benches."""
    more: tuple[str, ...] = ()
    """Further arguments of ``quadrant bench``."""

    def measure(self, side: Side, size: str) -> Figures:
        """Raises NotMeasured where the bench fails."""
        place = self.places[side]
        # Revisions from before there was a laboratory have the command in the coordinator.
        room = "laboratory" if (place.code / "laboratory").is_dir() else "coordinator"
        command = [str(place.python), "-m", f"{room}.cli", "bench", size, "-o", "json"]
        result = run([*command, *self.more], place, self.environment(place))
        if result.returncode:
            output = (result.stderr or result.stdout)[-SAID:].strip()
            raise NotMeasured(f"bench {size} of the {side} failed ({result.returncode}): {output}")
        lines = result.stdout.strip().splitlines()
        try:
            return figures_of(json.loads(lines[-1]))
        except (IndexError, ValueError):
            raise NotMeasured(f"bench {size} of the {side} printed no JSON") from None

    def environment(self, place: MeasuredCheckout) -> dict[str, str]:
        """PYTHONPATH stands before what is installed, so that processes that the bench starts
        find this side's code too, whichever checkout the interpreter belongs to."""
        inherited = {name: v for name, v in os.environ.items() if not name.startswith("QUADRANT_")}
        own = {"PYTHONPATH": str(place.code), "TMPDIR": str(self.scratch)}
        return inherited | own | {"QUADRANT_POLICY": str(self.policy)}


def run(
    command: Sequence[str], place: MeasuredCheckout, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run to the end; an interruption stops it first, with all that it started.

    In a session of its own: Ctrl-C reaches this process alone, which tells the bench once. Told by
    the terminal as well, it would be cancelled again while it cleans up."""
    with subprocess.Popen(
        command,
        cwd=place.code,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"{' '.join(command)}: no end after {RUN_SECONDS:g} s") from None
        finally:
            if process.poll() is None:
                stop(process)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def stop(process: subprocess.Popen[str]) -> None:
    """A bench that is told to end stops its processes; killed, it would leave that to the kernel,
    and its directories to nobody."""
    process.terminate()
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


# --- the base -------------------------------------------------------------------------------------


@contextlib.contextmanager
def both_sides(
    root: Path, base: str, *, policy: Path, more: tuple[str, ...] = ()
) -> Iterator[Sides]:
    """``root``: the checkout that is measured as it is; ``base``: a commit of it.

    Raises NoSuchRevision, and NotMeasured where the base cannot be installed."""
    commit = commit_of(root, base)
    # Ray's sockets are below it, and the kernel takes paths of 107 characters.
    directory = Path(tempfile.mkdtemp(prefix="q-"))
    try:
        code = directory / "base"
        git(root, "worktree", "add", "--detach", "--quiet", str(code), commit)
        policy_file = directory / "policy.yaml"
        shutil.copyfile(policy, policy_file)
        places = {
            Side.BASE: MeasuredCheckout(code, _python_for(code, root, directory)),
            Side.TREE: MeasuredCheckout(root, Path(sys.executable)),
        }
        yield Sides(places, policy_file, directory, more)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(NotMeasured):  # what broke the comparison is worth more than this
            git(root, "worktree", "prune")


def commit_of(root: Path, revision: str) -> str:
    """The commit that a name stands for. Raises NoSuchRevision."""
    process = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise NoSuchRevision(f"{revision!r} is no commit of {root}; name one: BASE=HEAD~1")
    return process.stdout.strip()


def git(root: Path, *words: str) -> None:
    """Raises NotMeasured with what git said."""
    result = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise NotMeasured(f"git {words[0]}: {result.stderr.strip()}")


def _python_for(code: Path, root: Path, directory: Path) -> Path:
    """This interpreter where both lock the same dependencies, else an environment of its own."""
    if (code / LOCK).read_bytes() == (root / LOCK).read_bytes():
        return Path(sys.executable)
    venv = directory / "venv"
    python = venv / "bin" / "python"
    steps = (
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK],
        # The project too: the product asks for its own version (importlib.metadata).
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "."],
    )
    for step in steps:
        result = subprocess.run(step, cwd=code, capture_output=True, text=True, check=False)
        if result.returncode:
            raise NotMeasured(f"the base's dependencies: {result.stderr[-SAID:].strip()}")
    return python
