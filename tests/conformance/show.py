"""``python -m tests.conformance.show [--why] [--running] [TEXT...]``: what each scenario comes to.

One line for each scenario whose id contains a text (all without one), then the count. Of one that
differs: what was expected and what came, or the error; ``--why`` adds the whole result, and the
traceback of an error. ``--running``: through coordinator, workers and ledger, in each form.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import typer

from laboratory.replay.scenario import replay
from tests.conformance.forms import Form, differences_in
from tests.conformance.judge import differences

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "conformance" / "volcano"


def main(arguments: list[str]) -> int:
    why, running = "--why" in arguments, "--running" in arguments
    texts = [argument for argument in arguments if argument not in ("--why", "--running")]
    good = observed = 0
    for file in sorted(FOLDER.glob("*.json")):
        for scenario in json.loads(file.read_text(encoding="utf-8")):
            name = scenario["id"]
            if texts and not any(text in name for text in texts):
                continue
            observed += 1
            report = ""
            try:
                result = replay(scenario)
                results = differences(result, scenario)
                report = json.dumps(result.as_json())
                for form in Form if running else ():
                    results += [f"{form.value}: {line}" for line in differences_in(form, scenario)]
            except Exception as error:  # a tool for people: whatever went wrong is shown
                results = [f"{type(error).__name__}: {error}"]
                report = traceback.format_exc()
            good += not results
            typer.echo(f"{'FAIL' if results else 'ok  '} {name}")
            for line in results:
                typer.echo(f"        {line}")
            if why:
                typer.echo(f"        {report}")
    typer.echo(f"{good} of {observed} as expected")
    return 0 if good == observed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
