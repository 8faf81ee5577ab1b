"""Modules loaded before a command can answer, the list of commands, usage errors, exit codes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from coordinator.cli.options.lazy import CommandEntry
from laboratory.cli.app import app
from laboratory.cli.catalogue import ENTRIES
from tests.conftest import ROOT
from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.stand_in import QUEUES, listed, pod, serving, table

HEAVY = {"ray", "numpy", "aiohttp", "structlog", "pydantic", "pydantic_settings", "redis"}
PODS = "/api/v1/namespaces/default/pods"


def _loaded(*arguments: str) -> set[str]:
    """Top-level modules that a command imports, and ``rich``'s as one."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "laboratory.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    names = re.findall(r"^import time:.*\| +(\S+)$", result.stderr, re.MULTILINE)
    assert "laboratory.cli" in names or "typer" in names
    return {name.partition(".")[0] for name in names}


HELP = ["--help", *(f"{entry.name} --help" for entry in ENTRIES)]
HELP += ["config check --help", "config show --help"]
READ_HELP = """
import contextlib, io, json, sys

known, told = set(), {}
from laboratory.cli.app import run

for words in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(words.split())
    told[words] = code, sorted({*sys.modules} - known)
    known |= {*sys.modules}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def of_help() -> dict[str, tuple[int, list[str]]]:
    """Exit code of each help, and the modules that it loads beyond those before it: one process
    reads all of them, as to start one takes longer than to read."""
    result = subprocess.run(
        [sys.executable, "-c", READ_HELP, *HELP],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    body: dict[str, tuple[int, list[str]]] = json.loads(result.stdout)
    return body


@pytest.mark.parametrize("arguments", HELP)
def test_help_loads_nothing_heavy(
    of_help: dict[str, tuple[int, list[str]]], arguments: str
) -> None:
    code, loaded = of_help[arguments]
    assert code == 0
    assert not {name.partition(".")[0] for name in loaded} & HEAVY


def test_the_modules_loaded_by_help_are_listed(of_help: dict[str, tuple[int, list[str]]]) -> None:
    _, loaded = of_help["--help"]
    assert "laboratory.cli.app" in loaded


@pytest.mark.parametrize(
    "arguments",
    [
        "get pods",
        "get pods -o json",
        "get pods -o wide --no-headers --dry-runless=x",
        "describe pods",
        "delete pods --all --dry-run=client",
        "events",
        "wait pods --all --for=jsonpath={.status.phase}=Running --timeout=1s",
        "queue list",
        "version",
    ],
)
def test_a_question_loads_nothing_heavy_and_nothing_to_draw_with(arguments: str) -> None:
    answers = {
        ("GET", PODS): (200, listed("Pod", pod("a"))),
        ("GET", f"{PODS} table"): (200, table(pod("a"))),
        ("GET", f"{PODS}/a"): (200, pod("a")),
        ("GET", "/api/v1/namespaces/default/events"): (200, listed("Event")),
        ("GET", QUEUES): (200, listed("Queue", version="scheduling.volcano.sh/v1beta1")),
        ("GET", "/version"): (200, {"gitVersion": "v1"}),
        ("GET", "/metrics"): (200, ""),
    }
    words = [word for word in arguments.split() if not word.startswith("--dry-runless")]
    with serving(answers) as server:
        loaded = _loaded(*words, "--server", server.url)
    assert not loaded & (HEAVY | {"rich"})
    assert "http" in loaded


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_list_of_commands_has_the_summary_of_each_help(entry: CommandEntry) -> None:
    if importlib.util.find_spec(entry.module) is None:
        pytest.skip(f"{entry.module} is not there yet")
    own = entry.load().help.strip().splitlines()[0]
    assert entry.help == own
    assert not own.endswith(".")
    assert own[0].isupper()


def test_every_command_is_listed(quadrant: Quadrant) -> None:
    result = quadrant("--help")
    assert result.code == 0
    for entry in ENTRIES:
        assert f" {entry.name} " in result.out
    assert "quadrant demo" in result.out


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_options_mean_the_same_everywhere(entry: CommandEntry) -> None:
    """One letter, one meaning: nobody has to look up what -n is here."""
    if importlib.util.find_spec(entry.module) is None:
        pytest.skip(f"{entry.module} is not there yet")
    command = entry.load()
    letters = {
        "-f": "--filename",
        "-n": "--namespace",
        "-A": "--all-namespaces",
        "-l": "--selector",
        "-o": "--output",
        "-w": "--watch",
        "-v": "--verbose",
        "-s": "--server",
        "-h": "--help",
    }
    for one in [command, *getattr(command, "commands", {}).values()]:
        for param in one.params:
            for letter in [name for name in param.opts if re.fullmatch("-[a-zA-Z]", name)]:
                assert letters[letter] in param.opts, (entry.name, letter, param.opts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("expalin", "Did you mean 'explain'?"),
        ("get", "Missing argument"),
        ("get pods --no-hedders", "--no-headers"),
        ("get pods -o xml", "-o xml: not known; write one of wide"),
        ("get pods -o jsonpath={.a", "not closed"),
        ("get pods --sort-by {.a", "not closed"),
        ("get pods -w --sort-by .a", "--sort-by"),
        ("apply", "--filename"),
        ("apply -f x --dry-run=maybe", "--dry-run"),
        ("wait pod/a", "--for"),
        ("wait pod/a --for=ready", "--for ready: not known"),
        ("wait pod/a --for=delete --timeout=soon", "--timeout soon: not a time"),
        ("delete", "name objects"),
        ("delete pod/a -f x", "one of both"),
        ("events --types=Odd", "Normal, Warning"),
        ("completion tcsh", "tcsh"),
        ("queue lits", "Did you mean 'list'?"),
        ("top --interval 0", "--interval"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_error(
    quadrant: Quadrant, arguments: str, message: str
) -> None:
    result = quadrant(*arguments.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert message in result.err


def test_no_server_is_told_with_the_remedy(quadrant: Quadrant) -> None:
    result = quadrant("get", "pods", "--server", "http://127.0.0.1:9")
    assert result.code == 1
    assert result.err.startswith("Error: cannot reach http://127.0.0.1:9 (--server): ")
    assert "quadrant up" in result.err


@pytest.mark.parametrize("code", [200, 404])
def test_a_page_for_browsers_is_told_in_one_line(quadrant: Quadrant, code: int) -> None:
    with serving({("GET", "/apis"): (code, "<!DOCTYPE HTML>\n<html>\n</html>")}) as server:
        result = quadrant("get", "pods", "--server", server.url)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "a page for browsers" in result.err


def test_tls_to_a_server_without_it_is_told(quadrant: Quadrant) -> None:
    with serving({}) as server:
        result = quadrant("get", "pods", "--server", server.url.replace("http:", "https:"))
    assert (result.code, "write http:// in place of https://" in result.err) == (1, True)


def test_another_cluster_is_never_touched(quadrant: Quadrant) -> None:
    groups = {"kind": "APIGroupList", "groups": [{"name": "apps"}]}
    with serving({("GET", "/apis"): (200, groups)}) as server:
        result = quadrant("delete", "pods", "--all", "--server", server.url)
        assert [request.path for request in server.asked] == ["/apis"]
    assert result.code == 1
    assert "is not a Quadrant server" in result.err


def test_the_reader_of_the_output_may_leave(tmp_path: Path) -> None:
    pods = [pod(f"pod-{n}") for n in range(20_000)]
    with serving({("GET", f"{PODS} table"): (200, table(*pods))}) as server:
        command = f"{sys.executable} -m laboratory.cli get pods --server {server.url} | head -1"
        result = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
        )
    assert result.stdout.split() == ["NAME", "STATUS"]
    assert result.stderr == ""


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """While it watches: a watch that is answered may end the command before the signal does."""
    with serving({("GET", f"{PODS} table"): (200, table(pod("a")))}) as server:
        server.holds_watches = True
        watching = subprocess.Popen(
            [sys.executable, "-m", "laboratory.cli", "get", "pods", "-w", "-s", server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("NAME")
        watching.send_signal(2)
        _, error = watching.communicate(timeout=60)
        server.released.set()
    assert (watching.returncode, error) == (130, "")


def test_colour_where_it_is_wanted(quadrant: Quadrant, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({("GET", f"{PODS} table"): (200, table(pod("a", "Failed")))}) as server:
        assert "\x1b" not in quadrant("get", "pods", "-s", server.url).out
        monkeypatch.setenv("FORCE_COLOR", "1")
        result = quadrant("get", "pods", "-s", server.url)
        assert "\x1b[31mFailed" in result.out
        assert "\x1b[1mNAME" in result.out
        assert "\x1b" in quadrant("get", "cows", "-s", server.url).err
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in quadrant("get", "pods", "-s", server.url).out
        assert "\x1b" not in quadrant("get", "cows", "-s", server.url).err


def test_both_scripts_are_one_command() -> None:
    from coordinator.cli import app as cli

    result = subprocess.run(
        [sys.executable, "-c", "from laboratory.cli.app import kubectl_plugin as p; p()"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TERM": "dumb"},
    )
    assert result.returncode == 2
    assert "kubectl quadrant" in result.stdout
    assert callable(cli.kubectl_complete)
    assert isinstance(app, typer.Typer)
