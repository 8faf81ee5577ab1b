"""Stock kubectl against ``quadrant up`` as a user starts it: all processes, and the kubeconfig that
it writes. Without a kubectl in PATH or ``$KUBECTL`` these tests are skipped."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.run.up import KUBECONFIG
from tests.builders.objects import a_list, node, pod
from tests.coordinator.api.conftest import job, running_pod
from tests.coordinator.api.kubectl import KubectlOutput, found

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.timeout(300)]

START_SECONDS = 150.0
SECONDS = 90.0
OLDEST = (1, 32)
SCRIPTS = Path(sys.executable).parent


class UpKubectl:
    def __init__(self, kubeconfig: Path, home: Path) -> None:
        program = found()
        assert program is not None
        self.program = program
        self.home = home
        path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
        self.environ = {"PATH": path, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *words: str, text: str = "") -> KubectlOutput:
        """Run a command. ``text`` goes to its standard input."""
        result = subprocess.run(
            [self.program, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=self.environ,
            cwd=self.home,
            check=False,
        )
        return KubectlOutput(result.returncode, result.stdout, result.stderr)

    def ok(self, *words: str, text: str = "") -> str:
        """Output of a command that must succeed."""
        result = self(*words, text=text)
        assert result.code == 0, (words, str(result))
        return result.out

    def until(self, pattern: str, *words: str) -> None:
        """Until a command prints it: the service tells some things when it comes to them."""
        end = time.monotonic() + SECONDS
        while not re.search(pattern, output := self.ok(*words)):
            assert time.monotonic() < end, output
            time.sleep(0.2)

    def file(self, name: str, *objects: object) -> str:
        path = self.home / f"{name}.json"
        path.write_text(json.dumps(objects[0] if len(objects) == 1 else a_list(*objects)))
        return str(path)


@pytest.fixture(scope="module")
def kubectl() -> Iterator[UpKubectl]:
    """kubectl for a service with two nodes, a Job of three pods that runs, and a pod that never
    will."""
    if found() is None:
        pytest.skip("no kubectl in PATH or $KUBECTL: what it sees of `quadrant up` is not tested")
    with tempfile.TemporaryDirectory(prefix="qt-", ignore_cleanup_errors=True) as name:
        run = Path(name)
        home = run / "home"
        home.mkdir()
        errors = (run / "up.err").open("w")
        up = subprocess.Popen(
            [str(SCRIPTS / "quadrant"), "up", "--shards", "1", "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("QUADRANT_")},
                "QUADRANT_RUN_DIR": str(run / "run"),
            },
            start_new_session=True,
        )
        try:
            yield _filled(UpKubectl(_kubeconfig(up, run), home))
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=SECONDS)
            errors.close()
    assert up.returncode == 130


def _kubeconfig(up: subprocess.Popen[str], run: Path) -> Path:
    """Where it is, once it is there."""
    assert up.stdout is not None
    ready, _, _ = select.select([up.stdout], [], [], START_SECONDS)
    assert ready and up.stdout.readline().startswith("http://"), (run / "up.err").read_text()
    path = run / "run" / KUBECONFIG
    end = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < end, "no kubeconfig was written"
        time.sleep(0.05)
    return path


def _filled(kubectl: UpKubectl) -> UpKubectl:
    big = pod("big", containers=[{"name": "c", "resources": {"requests": {"cpu": "100"}}}])
    objects = (node("n1"), node("n2"), job("train", 3, tier="train"), big)
    kubectl.ok("apply", "-f", kubectl.file("all", *objects))
    until = "--for=jsonpath={.status.phase}=Running"
    kubectl.ok("wait", "pod", "-l", "tier=train", "-n", "ns", until, "--timeout=60s")
    return kubectl


def test_it_is_new_enough(kubectl: UpKubectl) -> None:
    body = json.loads(kubectl.ok("version", "-o", "json"))
    client, server = body["clientVersion"], body["serverVersion"]
    assert (int(client["major"]), int(re.match(r"\d+", client["minor"])[0])) >= OLDEST  # type: ignore[index]
    assert "quadrant" in server["gitVersion"]


def test_it_gets(kubectl: UpKubectl) -> None:
    lines = kubectl.ok("get", "pods", "-n", "ns").splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "AGE"]
    assert [line.split()[0] for line in lines[1:4]] == ["big", "train-w-0", "train-w-1"]
    assert re.search(r"^train-w-2 +1/1 +Running ", "\n".join(lines), re.M)
    wide = kubectl.ok("get", "pods", "-n", "ns", "-o", "wide")
    assert "NODE" in wide.splitlines()[0]
    assert re.search(r"^train-w-0 .* n[12] ", wide, re.M)
    assert "nodeName: n" in kubectl.ok("get", "pod", "train-w-0", "-n", "ns", "-o", "yaml")
    assert kubectl.ok("get", "pods", "-A", "-l", "tier=train", "-o", "name").count("pod/") == 3
    both = kubectl.ok("get", "vcjob,no", "-A", "-o", "name").split()
    assert both == ["job.batch.volcano.sh/train", "node/n1", "node/n2"]


def test_all_of_a_namespace(kubectl: UpKubectl) -> None:
    names = kubectl.ok("get", "all", "-n", "ns", "-o", "name").split()
    assert {"pod/big", "pod/train-w-2", "job.batch.volcano.sh/train"} <= {*names}


def test_it_describes_with_events(kubectl: UpKubectl) -> None:
    why = r"Warning +FailedScheduling .*100 cpu, the largest node has 8"
    kubectl.until(why, "describe", "pod", "big", "-n", "ns")
    placed = r"Normal +Scheduled .*quadrant +3 tasks placed by shard-\d"
    kubectl.until(placed, "describe", "vcjob", "train", "-n", "ns")
    assert re.search(
        r"^  ns +train-w-\d ", kubectl.ok("describe", "node", "n1"), re.M
    ) or re.search(r"^  ns +train-w-\d ", kubectl.ok("describe", "node", "n2"), re.M)
    for words in ("queue default", "vcjob train -n ns", "shard shard-0"):
        assert "Name:" in kubectl.ok("describe", *words.split())


def test_it_watches(kubectl: UpKubectl) -> None:
    watch = subprocess.Popen(
        [kubectl.program, "get", "pods", "-n", "ns", "-l", "tier=seen", "-w"],
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environ,
    )
    try:
        time.sleep(2.0)
        kubectl.ok("apply", "-f", kubectl.file("seen", running_pod("seen", tier="seen")))
        assert watch.stdout is not None
        observed = ""
        end = time.monotonic() + SECONDS
        while "Running" not in observed:
            ready, _, _ = select.select([watch.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, observed
            observed += os.read(watch.stdout.fileno(), 65536).decode()
    finally:
        watch.terminate()
        watch.communicate(timeout=SECONDS)
        kubectl.ok("delete", "pod", "seen", "-n", "ns", "--ignore-not-found")
    assert re.search(r"^NAME +READY +STATUS +AGE\nseen ", observed), observed


def test_apply_diff_and_dry_run(kubectl: UpKubectl) -> None:
    first, second = running_pod("one", tier="a"), running_pod("one", tier="b")
    path = kubectl.file("one", first)
    result = kubectl("diff", "-f", path)
    assert (result.code, "+  name: one" in result.out) == (1, True), result
    assert kubectl.ok("apply", "-f", path, "--dry-run=server") == (
        "pod/one created (server dry run)\n"
    )
    assert kubectl("get", "pod", "one", "-n", "ns").code == 1
    assert kubectl.ok("apply", "-f", path) == "pod/one created\n"
    kubectl.ok(
        "wait", "pod/one", "-n", "ns", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"
    )
    assert kubectl.ok("apply", "-f", path) == "pod/one unchanged\n"
    assert kubectl("diff", "-f", path) == KubectlOutput(0, "", "")
    path = kubectl.file("one", second)
    result = kubectl("diff", "-f", path)
    assert result.code == 1
    assert re.search(r"^-\s+tier: a$", result.out, re.M), result
    assert re.search(r"^\+\s+tier: b$", result.out, re.M), result
    assert kubectl.ok("apply", "-f", path) == "pod/one configured\n"
    assert kubectl("diff", "-f", str(kubectl.home / "none.json")).code > 1
    kubectl.ok("wait", "pod/one", "-n", "ns", "--for=condition=PodScheduled", "--timeout=60s")
    assert kubectl.ok("delete", "pod", "one", "-n", "ns") == 'pod "one" deleted\n'
    assert kubectl("get", "pod", "one", "-n", "ns").code == 1


def test_the_server_applies(kubectl: UpKubectl) -> None:
    path = kubectl.file("two", running_pod("two", tier="a"))
    apply = ("apply", "--server-side", "-f", path)
    assert kubectl.ok(*apply) == "pod/two serverside-applied\n"
    # Between the two looks of a diff it would change.
    kubectl.ok(
        "wait", "pod/two", "-n", "ns", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"
    )
    assert kubectl("diff", "--server-side", "-f", path).code == 0
    kubectl.file("two", running_pod("two", tier="b"))
    result = kubectl(*apply, "--field-manager=another")
    assert result.code == 1
    assert 'conflict with "kubectl"' in result.err
    assert ".metadata.labels.tier" in result.err
    forced = kubectl.ok(*apply, "--field-manager=another", "--force-conflicts")
    assert forced == "pod/two serverside-applied\n"
    assert kubectl("diff", "--server-side", "--field-manager=another", "-f", path).code == 0
    assert kubectl.ok("label", "pod", "two", "-n", "ns", "more=yes") == "pod/two labeled\n"
    kubectl.ok("delete", "-f", path, "--wait=false")
    kubectl.ok("wait", "pod/two", "-n", "ns", "--for=delete", "--timeout=60s")


def test_a_finalizer_can_be_taken_away(kubectl: UpKubectl) -> None:
    held = running_pod("held")
    held["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    kubectl.ok("apply", "-f", kubectl.file("held", held))
    held["metadata"]["finalizers"] = ["example.com/b"]
    kubectl.ok("apply", "-f", kubectl.file("held", held))
    command = ("get", "pod", "held", "-n", "ns", "-o", "jsonpath={.metadata.finalizers}")
    assert kubectl.ok(*command) == '["example.com/b"]'
    kubectl.ok("delete", "pod", "held", "-n", "ns")


def test_it_explains(kubectl: UpKubectl) -> None:
    output = kubectl.ok("explain", "pod.spec.containers.resources.requests")
    assert "Amounts that are set aside for it" in output
    assert "minAvailable\t<integer>" in kubectl.ok("explain", "vcjob.spec")


def test_kubectl_shows_each_invalid_field(kubectl: UpKubectl) -> None:
    wrong = job("wrong", 1)
    wrong["spec"]["minAvailable"] = -1
    result = kubectl("apply", "-f", kubectl.file("wrong", wrong))
    assert result.code == 1
    assert 'The Job "wrong" is invalid: spec.minAvailable: Invalid value' in result.err
    unknown = pod("wrong")
    unknown["spec"]["nodeSelectr"] = {"a": "b"}
    result = kubectl("apply", "-f", kubectl.file("wrong", unknown))
    assert result.code == 1
    assert "spec.nodeSelectr" in result.err
    assert kubectl("get", "pod,vcjob", "wrong", "-n", "ns").code == 1


def test_the_plugin_is_the_command(kubectl: UpKubectl) -> None:
    """``kubectl-quadrant`` stands beside ``quadrant``; kubectl finds it in PATH."""
    output = kubectl.ok("quadrant", "get", "pods", "-n", "ns", "-o", "name")
    assert output.splitlines() == ["pod/big", *(f"pod/train-w-{i}" for i in range(3))]
    assert "ExceedsNodeCapacity" in kubectl("quadrant", "explain", "pod", "ns/big").out


def test_kubectl_fails_cleanly_on_apis_that_are_not_served(kubectl: UpKubectl) -> None:
    for words in (("auth", "can-i", "get", "pods"), ("cluster-info",), ("top", "pods")):
        result = kubectl(*words)
        assert "Traceback" not in result.out + result.err
        assert "panic" not in result.err
