"""One seed in several processes of ``quadrant chaos sim``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def check_same_history(folder: Path, seed: int, *arguments: str) -> None:
    """A seed leaves the same bytes in two processes, where sets of strings have another order;
    the next seed leaves others."""
    for name, number, salt in (("a", seed, "1"), ("b", seed, "2"), ("c", seed + 1, "1")):
        command = ["chaos", "sim", *arguments, "--seed", str(number)]
        subprocess.run(
            [sys.executable, "-m", "laboratory.cli", *command, "--history", folder / name],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
    first, second, other = ((folder / name).read_bytes() for name in "abc")
    assert first == second
    assert first != other
