"""``python -m tests.conformance.show [--why] [TEXT...]``: what each scenario comes out as.

One line for each scenario whose id contains a text (all without one), then the count. Of one that
differs: what was expected and what came, or the error; ``--why`` adds the whole result, and the
traceback of an error.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import typer

from coordinator.verification.replay.scenario import replay
from tests.conformance.judge import differences

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "conformance" / "volcano"


def main(arguments: list[str]) -> int:
    why = "--why" in arguments
    texts = [argument for argument in arguments if argument != "--why"]
    good = seen = 0
    for file in sorted(FOLDER.glob("*.json")):
        for scenario in json.loads(file.read_text(encoding="utf-8")):
            name = scenario["id"]
            if texts and not any(text in name for text in texts):
                continue
            seen += 1
            told = ""
            try:
                result = replay(scenario)
                found = differences(result, scenario)
                told = json.dumps(result.as_json())
            except Exception as error:  # a tool for people: whatever went wrong is shown
                found = [f"{type(error).__name__}: {error}"]
                told = traceback.format_exc()
            good += not found
            typer.echo(f"{'FAIL' if found else 'ok  '} {name}")
            for line in found:
                typer.echo(f"        {line}")
            if why:
                typer.echo(f"        {told}")
    typer.echo(f"{good} of {seen} as expected")
    return 0 if good == seen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
