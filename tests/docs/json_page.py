"""``docs/reference/json.md``: the fields of the JSON that commands print, read from their output.

``python -m tests.docs.json_page`` runs each command, some for a minute, and writes the page anew.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.docs.reader import START
from tests.docs.terminal import Up, surroundings

PAGE = ROOT / "docs" / "reference" / "json.md"
EXAMPLES = ROOT / "examples"
COMMAND_SECONDS = 300.0

LONG: Mapping[str, str] = {
    "demo": "demo --jobs 20 --nodes 10 --shards 2 --backlog",
    "bench": "bench basic --nodes 20 --pods 40 --shards 2; bench scale --nodes 20 --pods 40 "
    "--shards 1",
    "chaos run": "chaos run --duration 5 --shards 2 --seed 1",
    "chaos measure": "chaos measure --tasks 100 --times 1",
    "chaos model": "chaos model",
}
"""Commands that start processes of their own or take long, and a call of each."""
SHORT: Mapping[str, str] = {
    "config check": f"config check {EXAMPLES}/policies/allocate-only.yaml",
    "config show": "config show --origin",
    "doctor": "doctor",
    "token list": "token list --file tokens",
    "queue shares": "queue shares queues.yaml",
    "replay": f"replay {EXAMPLES}/nodes.yaml {EXAMPLES}/gang.yaml",
    "scaling": "scaling trace.csv --nodes 1 --gpus-per-node 2 --shards 1,2 --seeds 1 --speedup 1",
    "lab": "lab trace.csv --nodes 2 --gpus-per-node 2 --shards 1,2 --seeds 1 --speedup 1; lab "
    "waits.csv --nodes 2 --gpus-per-node 2 --seeds 1 --forecast --search "
    "nodeorder.leastrequested.weight=1..2",
    "chaos sim": "chaos sim --seed 1",
}
"""Commands that need no server, called in a directory with :func:`write_inputs`; "; " between calls
whose output has different fields."""
SERVED: Mapping[str, str] = {
    "explain": "explain pod/large-worker-0",
    "story": "story pod train-0",
    "receipt": "receipt job/large",
    "trace": "trace job/large --turns 1 --seconds 5",
    "plan": "plan -f plan.yaml",
    "queue pairs": "queue pairs",
    "shard list": "shard list",
    "version": "version",
    "debug dump": "debug dump coordinator",
    "debug profile": "debug profile coordinator --seconds 1",
    "chaos kill": "chaos kill shard-0",
    "chaos check": "chaos check",
}
"""Commands that ask a server, which has the examples."""
OF_THE_MOMENT = frozenset(
    {"explain", "queue pairs", "receipt", "trace", "chaos kill", "chaos check"}
)
"""Commands whose optional fields depend on when they are called."""
OBJECTS = frozenset({"get", "apply", "events", "queue list", "snapshot"})
"""Commands that print objects of the Kubernetes API."""
ELSEWHERE = frozenset({"ledger show", "queue order", "shadow report"})
"""Commands that need a stopped server, a policy of KAI's, or a cluster of another scheduler."""

BY_NAME = frozenset(
    (
        *("allocatable", "allocated", "asks", "available", "binds", "broken", "capability"),
        *("deserved", "faults", "hostile", "idle", "parents", "pending_reasons", "recovery_s"),
        *("replay podGroups", "replay tasks", "queue shares resources", "queue shares total"),
        *(
            "measures",
            "difference",
            "dropped",
            "columns",
            "held",
            "loads",
            "requested",
            "settings",
            "short",
            "stacks",
            "states",
            "sums",
            "workloads",
        ),
    )
)
"""Fields whose value has names in the place of fields: by the field, or with its command."""

_HEAD = """\
# The JSON of each command

This page is made from what the commands print by `python -m tests.docs.json_page`.

With `-o json` a command prints one object to stdout, and progress and remarks to stderr. Below,
`NAME` stands for any name (of a resource, queue, fault, pod), and `list` is followed by the fields
of each element. A field may be absent where it says nothing.

`quadrant get`, `apply`, `events` and `queue list` print objects of the Kubernetes API as kubectl
does, `quadrant snapshot` a List of them. `quadrant trace` prints one object for each step. Not on
this page are `quadrant ledger show`, `quadrant queue order` and `quadrant shadow report`.
"""


@dataclass(slots=True)
class JsonShape:
    """Values that were seen at one place: their kinds, and the fields of objects among them."""

    kinds: dict[str, None] = field(default_factory=dict)
    fields: dict[str, JsonShape] = field(default_factory=dict)

    def add(self, value: Any, name: str, command: str) -> None:
        """Include a value, which a field of this name has."""
        match value:
            case dict():
                by_name = name in BY_NAME or f"{command} {name}" in BY_NAME
                if not value:
                    self.kinds["object"] = None
                for key, item in value.items():
                    inner = "NAME" if by_name else key
                    self.fields.setdefault(inner, JsonShape()).add(item, key, command)
            case list():
                self.kinds["list"] = None
                for item in value:
                    self._add_element(item, command)
            case _:
                self.kinds[_kind(value)] = None

    def _add_element(self, item: Any, command: str) -> None:
        if isinstance(item, dict):
            self.add(item, "", command)
            return
        element = JsonShape()
        element.add(item, "", command)
        self.kinds |= {f"of {kind}": None for kind in element.kinds}
        self.fields |= element.fields

    def lines(self, indent: str = "") -> Iterator[str]:
        for name, inner in self.fields.items():
            kinds = " or ".join(kind for kind in inner.kinds if not kind.startswith("of "))
            elements = " or ".join(kind[3:] for kind in inner.kinds if kind.startswith("of "))
            text = f"{kinds} of {elements}" if elements else kinds
            yield f"{indent}{name}: {text}".rstrip()
            yield from inner.lines(f"{indent}  ")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "text"
        case _:
            return "number"


def write_inputs(directory: Path) -> None:
    """Files that the calls name."""
    job = (EXAMPLES / "too-large.yaml").read_text()
    (directory / "plan.yaml").write_text(job.replace("name: large", "name: other"))
    rows = [f"{i},60,1,a" for i in range(6)]
    (directory / "trace.csv").write_text("\n".join(["submit,duration,gpus,queue", *rows]))
    rows = [f"{100 * i},600,1,a" for i in range(60)]  # enough for estimates of their waits
    (directory / "waits.csv").write_text("\n".join(["submit,duration,gpus,queue", *rows]))
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"resources": {"gpu": {"quota": 2, "limit": 4, "overQuotaWeight": 1}}},
    }
    nodes = (EXAMPLES / "nodes.yaml").read_text()
    (directory / "queues.yaml").write_text(f"{nodes}\n---\n{json.dumps(queue)}\n")


def shapes(
    calls: Mapping[str, str], directory: Path, server: Up | None = None
) -> dict[str, JsonShape]:
    """Output of each call, by command."""
    more = {} if server is None else {"KUBECONFIG": server.kubeconfig}
    return {
        command: _shape(
            command,
            "\n".join(_run(f"{one} -o json", directory, **more) for one in call.split("; ")),
        )
        for command, call in calls.items()
    }


def _shape(command: str, output: str) -> JsonShape:
    result = JsonShape()
    decoder, at = json.JSONDecoder(), 0
    while at < len(output):
        value, at = decoder.raw_decode(output, at)
        result.add(value, "", command)
        at += len(output[at:]) - len(output[at:].lstrip())
    assert result.fields, f"{command} printed no object: {output}"
    return result


def _run(call: str, directory: Path, **more: str) -> str:
    process = subprocess.run(
        ["quadrant", *call.split()],
        cwd=directory,
        env=surroundings(directory, **more),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert process.returncode in (0, 1, 10, 11), (call, process.stderr)
    return process.stdout.strip()


def short_shapes(directory: Path, served: Mapping[str, str]) -> dict[str, JsonShape]:
    """Shapes of the commands that need no server, and of those that are to be asked."""
    write_inputs(directory)
    _run("token new --name ci --role submit --queue research --file tokens", directory)
    alone = shapes(SHORT, directory)
    with Up(START.text, directory, shards=1) as server:
        for name in ("nodes", "gang", "too-large"):
            _run(f"apply -f {EXAMPLES / name}.yaml", directory, KUBECONFIG=server.kubeconfig)
        return alone | shapes(served, directory, server)


def paths(lines: Iterable[str]) -> set[str]:
    """Full names of the fields in the lines of a shape."""
    result, above = set[str](), list[str]()
    for line in lines:
        name = line.strip().partition(":")[0]
        del above[(len(line) - len(line.lstrip())) // 2 :]
        above.append(name)
        result.add(".".join(above))
    return result


def page(commands: Mapping[str, JsonShape]) -> str:
    parts = [_HEAD]
    for command in sorted(commands):
        lines = "\n".join(commands[command].lines())
        parts.append(f"## quadrant {command}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PAGE.write_text(page(short_shapes(Path(name), SERVED) | shapes(LONG, Path(name))))
