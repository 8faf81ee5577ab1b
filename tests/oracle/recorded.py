"""Sets of our forms with the outcomes that Volcano's and KAI's own code gave, to be replayed
without Go.

``python -m tests.oracle.recorded --variants 600 --seed 7`` writes Volcano's anew, ``--peer kai
--variants 300`` KAI's. The first line of a file says the version, the runs and the seed; each other
line has a form and its different outcomes.

``--explained 3001-96`` adds the variant of this id to the explained ones, each with the kind of its
difference, and asks Volcano's code anew for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from tests.oracle.build import build, version
from tests.oracle.compare import PEERS, Peer, among
from tests.oracle.decided import Scenario, decided
from tests.oracle.outcome import Outcome, Shape
from tests.oracle.peers import RUNS, ask

FEW = 6
"""A case with more different outcomes would say little."""
MANY_RUNS = 2 * RUNS


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """A recorded case."""

    scenario: Scenario
    outcomes: list[Outcome]
    kind: str = ""
    """The kind of the difference of our session; "" for none."""


def file_of(peer: Peer) -> Path:
    return Path(__file__).with_name(f"{peer.program}.jsonl")


def explained_file_of(peer: Peer) -> Path:
    return Path(__file__).with_name(f"{peer.program}_explained.jsonl")


def cases(peer: Peer) -> Iterator[RecordedCase]:
    """The recorded cases."""
    yield from _read(peer, file_of(peer))


def explained_cases(peer: Peer) -> Iterator[RecordedCase]:
    """Variants that differed, and were understood: a kind of difference or a fault of ours."""
    yield from _read(peer, explained_file_of(peer))


def _read(peer: Peer, file: Path) -> Iterator[RecordedCase]:
    _, *lines = file.read_text("utf-8").splitlines()
    for line in lines:
        body = json.loads(line)
        outcomes = [Outcome.read(outcome) for outcome in body["outcomes"]]
        scenario = peer.scenario_of(body["id"], body["form"])
        yield RecordedCase(scenario, outcomes, body.get("kind", ""))


def record(peer: Peer, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """The lines of so many cases in which something happens, with a few outcomes each."""
    binary, number, written = build(peer.program), 0, 0
    while written < count:
        forms = {f"v{i}": peer.form_of(Random(f"{seed} {i}")) for i in range(number, number + 100)}
        number += 100
        scenarios = [peer.scenario_of(name, form) for name, form in forms.items()]
        answers = ask(binary, scenarios, runs=MANY_RUNS)
        for scenario, outcomes in zip(scenarios, answers, strict=True):
            line = _line(peer, scenario, forms[scenario["id"]], outcomes)
            if line is not None and written < count:
                written += 1
                yield line


def _line(
    peer: Peer, scenario: Scenario, form: dict[str, Any], outcomes: list[Outcome]
) -> dict[str, Any] | None:
    shape = Shape(scenario)
    different = {shape.canonical(outcome): outcome for outcome in outcomes}
    idle = not any(each.binds or each.evicted or each.pipelined for each in outcomes)
    if idle or len(different) > FEW:
        return None
    line = {"id": scenario["id"], "form": form}
    ours = decided(scenario, 0)
    equal = among(scenario, ours, outcomes)
    if not equal and peer.kind_of(scenario, ours, outcomes, False) is None:
        typer.echo(f"left out, it differs in no known kind: {json.dumps(line)}", err=True)
        return None
    return line | {"outcomes": [each.as_json() for each in different.values()]}


def explain(peer: Peer, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The lines of these variants."""
    binary = build(peer.program)
    for name in ids:
        form = peer.form_of(Random(name.replace("-", " ")))
        scenario = peer.scenario_of(name, form)
        (outcomes,) = ask(binary, [scenario], runs=MANY_RUNS)
        shape, ours = Shape(scenario), decided(scenario, 0)
        different = {shape.canonical(outcome): outcome for outcome in outcomes}
        equal = among(scenario, ours, outcomes)
        kind = None if equal else peer.kind_of(scenario, ours, outcomes, False)
        if not equal and kind is None:
            raise typer.BadParameter(f"{name} differs in no known kind")
        few = [each.as_json() for each in different.values()][:FEW]
        yield {"id": name, "kind": kind.name if kind else "", "form": form, "outcomes": few}


def main(
    count: Annotated[int, typer.Option("--variants", help="How many cases.")] = 600,
    seed: Annotated[int, typer.Option(help="Seed of the forms.")] = 7,
    name: Annotated[str, typer.Option("--peer", help="volcano or kai.")] = "volcano",
    ids: Annotated[
        list[str] | None, typer.Option("--explained", help="Add the variant of this id.")
    ] = None,
) -> None:
    peer = PEERS[name]
    head = {"software": peer.software, "version": version(peer.program, peer.module)}
    head |= {"runs": str(MANY_RUNS)}
    if ids:
        file = explained_file_of(peer)
        known = [case.scenario["id"] for case in explained_cases(peer)] if file.exists() else []
        return _write(file, [head, *explain(peer, dict.fromkeys([*known, *ids]))])
    return _write(file_of(peer), [head | {"seed": str(seed)}, *record(peer, count, seed)])


def _write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    file.write_text(text, "utf-8")


if __name__ == "__main__":
    typer.run(main)
