"""``quadrant replay``: run recorded cluster states through one session each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator.commands.failure import CommandError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def replay(
    files: Annotated[
        list[Path],
        typer.Argument(help="Scenario files, JSON or YAML; one scenario or a list of them each"),
    ],
    only: Annotated[
        str, typer.Option("--only", help="Run only scenarios whose id contains this text")
    ] = "",
) -> None:
    """Decide recorded cluster states: one session each, one JSON object a line

    A scenario holds a policy (Volcano's configuration), a cluster (objects by kind) and, where
    sharded, the mode and the nodes of the own shard. Printed are binds, pipelined tasks, phases.
    """
    from coordinator.replay import ScenarioError
    from coordinator.replay import replay as run
    from shared.policy import PolicyError

    for file in files:
        for scenario in _scenarios(file):
            if only not in str(scenario.get("id", "")):
                continue
            try:
                result = run(scenario)
            except (ScenarioError, PolicyError) as error:
                raise CommandError(f"{file}: {scenario.get('id', '')}: {error}") from None
            typer.echo(json.dumps(result.as_json()))


def _scenarios(file: Path) -> Iterator[dict[str, Any]]:
    from shared.manifests.text import TextError, read_values

    try:
        text = file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: cannot read it: {error.strerror}") from None
    try:
        documents = read_values(text, form="json" if file.suffix == ".json" else "either")
    except TextError as error:
        raise CommandError(f"{file}: not a scenario file: {error}") from None
    content = [
        scenario
        for document in documents
        for scenario in (document if isinstance(document, list) else [document])
    ]
    for scenario in content:
        if not isinstance(scenario, dict):
            raise CommandError(
                f"{file}: a scenario must be a mapping, not {type(scenario).__name__}"
            )
        yield scenario
