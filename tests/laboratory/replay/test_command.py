"""``quadrant replay`` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from laboratory.cli.app import run
from tests.builders.objects import a_list, priority_class, queue
from tests.laboratory.replay.build import Json, gang, group, node, pod, policy
from tests.shard_worker.framework.installed import frail_policy, install_frail

LOW = policy("allocate, preempt", "priority", "gang", "conformance", "predicates")
KEEP = policy("allocate", "priority", "gang", "conformance", "predicates")
ITEMS = [
    node("a"),
    priority_class("top", 100),
    *gang("low", pods=4, on="a", minMember=1),
    group("top", priorityClassName="top"),
    pod("top-0", group="top", cpu=2),
]


class ReplayOutput:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.out.splitlines()]


class Quadrant:
    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capfd = capfd
        self.file("now.yaml", a_list(*ITEMS))
        self.file("evicts.yaml", LOW)
        self.file("keeps.yaml", KEEP)

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    def path(self, name: str) -> Path:
        return self._folder / name

    def __call__(self, command: str) -> ReplayOutput:
        words = [
            str(self._folder / word) if word.endswith((".yaml", ".json")) else word
            for word in command.split()
        ]
        code = run(["replay", *words], "quadrant")
        out, err = self._capfd.readouterr()
        return ReplayOutput(code, out, err)


@pytest.fixture
def quadrant(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Quadrant:
    return Quadrant(tmp_path, capfd)


def test_a_table_for_people(quadrant: Quadrant) -> None:
    result = quadrant("now.yaml --policy evicts.yaml")
    assert result.code == 0
    first, *rest = result.out.splitlines()
    assert first.endswith("now.yaml: 0 bound, 2 evicted, 1 promised a node, 0 wait")
    reports = [line.split() for line in rest]
    assert ["promise", "ns/top-0", "a", "<none>"] in reports
    assert any(words[:3] == ["evict", "ns/low-3", "a"] for words in reports)
    assert any(words[:2] == ["ns/low", "Running"] for words in reports)


def test_json_is_one_object_a_session(quadrant: Quadrant) -> None:
    first, second = quadrant("now.yaml --policy evicts.yaml -o json --cycles 2").lines
    assert (first["cycle"], first["pipelined"]) == (1, {"ns/top-0": "a"})
    assert (second["cycle"], second["binds"]) == (2, {"ns/top-0": "a"})
    keys = {"id", "binds", "evicted", "pipelined", "podGroups", "tasks"}
    [line] = quadrant("now.yaml --policy evicts.yaml -o json").lines
    assert line.keys() == keys


def test_diff_lists_the_pods_that_another_policy_decides_differently(quadrant: Quadrant) -> None:
    result = quadrant("now.yaml --policy keeps.yaml --diff evicts.yaml -o json")
    assert result.code == 1
    results = {line["name"]: (line["policy"], line["other"]) for line in result.lines}
    assert results == {
        "ns/low-2": ("waits", "evict"),
        "ns/low-3": ("waits", "evict"),
        "ns/top-0": ("waits", "promise a"),
    } | {k: v for k, v in results.items() if k == "ns/top"}
    result = quadrant("now.yaml --policy keeps.yaml --diff evicts.yaml")
    assert result.code == 1
    assert "ns/top-0" in result.out


def test_fields_that_a_policy_does_not_serve_are_noted(quadrant: Quadrant) -> None:
    """They are placed without, as Volcano does; a service would keep the jobs waiting."""
    hard = {"mode": "hard", "highestTierAllowed": 1}
    groups = [item for name in "ab" for item in gang(name, pods=2, networkTopology=hard)]
    quadrant.file("racks.yaml", a_list(*ITEMS[:1], *groups))
    result = quadrant("racks.yaml --policy keeps.yaml -o json")
    assert len(result.lines[0]["binds"]) == 4
    assert "PodGroup ns/a and 1 more: the policy in force does not serve" in result.err
    assert "add plugin network-topology-aware" in result.err
    serves = policy("allocate", "gang", "predicates", "network-topology-aware")
    quadrant.file("serves.yaml", serves)
    assert quadrant("racks.yaml --policy serves.yaml -o json").err == ""
    diff = quadrant("racks.yaml --policy serves.yaml --diff keeps.yaml -o json").err
    assert diff.startswith(f"{quadrant.path('racks.yaml')}: --diff: PodGroup ns/a and 1 more")


def test_policies_that_decide_the_same_end_well(quadrant: Quadrant) -> None:
    result = quadrant("now.yaml --policy keeps.yaml --diff keeps.yaml")
    assert (result.code, result.out.splitlines()[0].endswith("decide the same")) == (0, True)
    assert quadrant("now.yaml --policy keeps.yaml --diff keeps.yaml -o json").out == ""


def test_shards_are_told_like_a_session(quadrant: Quadrant) -> None:
    quadrant.file("free.yaml", a_list(*ITEMS[:1], *gang("g", pods=2)))
    [line] = quadrant("free.yaml --policy keeps.yaml --shards 2 --mode soft --seed 3 -o json").lines
    assert line["binds"] == {"ns/g-0": "a", "ns/g-1": "a"}


def test_help_teaches(quadrant: Quadrant) -> None:
    result = quadrant("--help")
    assert result.code == 0
    for words in ("kubectl get", "--diff", "--cycles", "--shards", "bound pods run"):
        assert words in result.out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("none.yaml", "none.yaml: cannot read it: No such file"),
        ("empty.yaml", "empty.yaml: nothing is in it; give a dump or a scenario"),
        ("broken.yaml", "broken.yaml: cannot be read: line 2, column 1: not YAML"),
        ("now.yaml --policy none.yaml", "none.yaml: cannot read it"),
        ("now.yaml --policy now.yaml", "now.yaml: kind: 'List' is not a ConfigMap"),
        ("now.yaml --now soon", "--now: 'soon' is not a time"),
        ("now.yaml --shards 1 --cycles 2", "--cycles: with --shards"),
    ],
)
def test_a_mistake_is_one_sentence(quadrant: Quadrant, command: str, message: str) -> None:
    quadrant.file("empty.yaml", "")
    quadrant.file("broken.yaml", "a: [")
    result = quadrant(command)
    assert result.code in (1, 2)
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("shards", ["", " --shards 1", " --shards 2"])
def test_a_pod_of_its_own_that_waits_is_told(quadrant: Quadrant, shards: str) -> None:
    items = [node("a"), pod("fits"), pod("too-large", cpu=9)]
    quadrant.file("alone.yaml", a_list(*items))
    result = quadrant(f"alone.yaml --policy keeps.yaml{shards}")
    assert "1 bound, 0 evicted, 0 promised a node, 1 wait" in result.out
    assert ["POD", "WHY"] in [line.split() for line in result.out.splitlines()]
    assert result.out.splitlines()[-1].startswith("ns/too-large")
    [line] = quadrant(f"alone.yaml --policy keeps.yaml{shards} -o json").lines
    assert [*line["pods"]] == ["ns/too-large"]
    assert line["pods"]["ns/too-large"]["reasons"]


@pytest.mark.parametrize("form", ["", " --shards 1 --mode none", " --shards 2 --mode soft"])
@pytest.mark.parametrize("at", ["LivePredicate", "Overused", "Allocatable"])
def test_a_plugin_that_raises_is_one_line(
    quadrant: Quadrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, at: str
) -> None:
    install_frail(tmp_path, monkeypatch)
    quadrant.file("frail.yaml", frail_policy(at))
    asking = [group("bad", queue="frail"), pod("bad-0", group="bad", cpu=2)]
    quadrant.file("asks.yaml", a_list(node("a"), queue("frail"), *asking))
    result = quadrant(f"asks.yaml --policy frail.yaml{form}")
    assert (result.code, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert f"plugin frail raised at {at}: " in line
