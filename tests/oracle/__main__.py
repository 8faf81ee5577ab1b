"""``python -m tests.oracle --variants 20000 --seed 1``: so many random scenarios in Volcano's own
code (``--peer kai``: in KAI's) and in ours, and a line for each that comes out otherwise.

Ends with 1 where a difference is of no known kind.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.oracle.build import build
from tests.oracle.compare import BATCH, PEERS, Difference, differences, variants


def main(  # noqa: PLR0917 - options of a command
    count: Annotated[int, typer.Option("--variants", help="How many scenarios.")] = 300,
    name: Annotated[str, typer.Option("--peer", help="volcano or kai.")] = "volcano",
    seed: Annotated[int, typer.Option(help="Seed of the first.")] = 1,
    first: Annotated[int, typer.Option(help="Number of the first.")] = 0,
    tables: Annotated[
        Path | None, typer.Option(help="Folder of scenario files, to vary these as well.")
    ] = None,
    shards: Annotated[
        int, typer.Option(help="Decide by a service with so many; 0: by one session.")
    ] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for the scenarios that differ, with outcomes.")
    ] = None,
) -> None:
    read = _tables(tables) if tables else []
    kinds: Counter[str] = Counter()
    peer = PEERS[name]
    scenarios = list(variants(peer, count, seed=seed, tables=read, first=first))
    binary = build(peer.program)
    for difference in differences(peer, binary, scenarios, shards=shards, progress=_progress):
        kind = difference.kind.value if difference.kind else "unexplained"
        kinds[kind] += 1
        if keep is not None:
            _write(keep, kind, difference)
        if difference.kind is None:
            typer.echo(f"{difference.scenario['id']}: {_report(difference)}")
    for kind, number in kinds.most_common():
        typer.echo(f"{number:6} {kind}")
    typer.echo(
        f"{count} variants, {sum(kinds.values())} differ, {kinds['unexplained']} unexplained"
    )
    raise typer.Exit(1 if kinds["unexplained"] else 0)


def _tables(folder: Path) -> list[dict[str, Any]]:
    """Scenarios of all files. Those of one shard need a service around the session."""
    files = sorted(folder.glob("*.json"))
    scenarios = [one for file in files for one in json.loads(file.read_text("utf-8"))]
    return [one for one in scenarios if "sharding" not in one]


def _report(difference: Difference) -> str:
    ours = json.dumps(difference.ours.as_json())
    theirs = " or ".join(json.dumps(them.as_json()) for them in difference.theirs[:3])
    return f"ours {ours}, theirs {theirs}"


def _write(folder: Path, kind: str, difference: Difference) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "kind": kind,
        "scenario": difference.scenario,
        "ours": difference.ours.as_json(),
        "theirs": [them.as_json() for them in difference.theirs],
    }
    file = folder / f"{difference.scenario['id']}.json"
    file.write_text(json.dumps(document, indent=1), "utf-8")


def _progress(done: int) -> None:
    if done % (5 * BATCH) == 0:
        typer.echo(f"{done} done", err=True)


if __name__ == "__main__":
    typer.run(main)
