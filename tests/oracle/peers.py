"""Asking another scheduler's own code: the outcomes of a scenario over several runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.die_with_parent import die_with_parent
from tests.oracle.outcome import Outcome

RUNS = 6
"""Runs of each scenario: Volcano breaks ties at random."""
BATCH = 100
"""Scenarios a process: each session leaves the goroutines of its cache behind."""
BATCH_SECONDS = 600.0


class PeerError(RuntimeError):
    """The other scheduler's code could not decide a scenario; the message has its words."""


def ask(binary: Path, scenarios: Sequence[Any], *, runs: int = RUNS) -> list[list[Outcome]]:
    """The different outcomes of each scenario; none where the other's code panics. Raises
    PeerError."""
    outcomes: list[list[Outcome]] = []
    for first in range(0, len(scenarios), BATCH):
        batch = scenarios[first : first + BATCH]
        outcomes += _ask(binary, batch, runs)
    return outcomes


def _ask(binary: Path, scenarios: Sequence[Any], runs: int) -> list[list[Outcome]]:
    documents = [
        {"id": one["id"], "policy": one["policy"], "cluster": one["cluster"]} for one in scenarios
    ]
    result = subprocess.run(
        [binary, "-runs", str(runs)],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        preexec_fn=die_with_parent(),
        timeout=BATCH_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise PeerError(f"{binary.name} ended with {result.returncode}: {result.stderr[-2000:]}")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for answer in answers:
        if not answer.get("error", "panic").startswith("panic"):
            raise PeerError(f"{answer['id']}: {answer['error']}")
    return [[Outcome.read(body) for body in answer["outcomes"]] for answer in answers]
