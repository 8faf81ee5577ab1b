"""Stock kubectl writes to a running service, as people and their tools do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.builders.objects import a_list
from tests.coordinator.api.kubectl import Kubectl, found
from tests.coordinator.intake.world_objects import WORLD
from tests.end_to_end.one_process.harness import running

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL"),
]

QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {taints: [{key: a, effect: PreferNoSchedule}, {key: b, effect: PreferNoSchedule}]}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
"""
GANG = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 1, queue: research}
---
apiVersion: v1
kind: Pod
metadata:
  name: one
  annotations: {scheduling.k8s.io/group-name: gang, quadrant.dev/duration: "600"}
spec:
  containers: [{name: main, image: x, resources: {requests: {cpu: "1"}}}]
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  tasks:
  - name: w
    replicas: 2
    template:
      metadata: {annotations: {quadrant.dev/duration: "600"}}
      spec: {containers: [{name: main, image: x, resources: {requests: {cpu: "1"}}}]}
"""
ALL = "---".join((QUEUE, NODE, GANG, JOB))


@pytest_asyncio.fixture
async def kubectl(redis_url: str, short_dir: Path, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with running(redis_url, short_dir) as service:
        yield Kubectl(service.url, tmp_path)


async def read(kubectl: Kubectl, *what: str) -> Any:
    return json.loads(await kubectl.ok("get", *what, "-o", "json", "--show-managed-fields"))


async def version(kubectl: Kubectl, *what: str) -> str:
    return str((await read(kubectl, *what))["metadata"]["resourceVersion"])


async def test_apply_and_apply_again(kubectl: Kubectl) -> None:
    names = (
        "queue.scheduling.volcano.sh/research",
        "node/n1",
        "podgroup.scheduling.volcano.sh/gang",
        "pod/one",
        "job.batch.volcano.sh/train",
    )
    for verb in ("created", "unchanged"):
        out = await kubectl.ok("apply", "-f", "-", text=ALL)
        assert out.splitlines() == [f"{name} {verb}" for name in names]
    out = await kubectl.ok("apply", "-f", "-", text=QUEUE.replace("weight: 2", "weight: 3"))
    assert out == "queue.scheduling.volcano.sh/research configured\n"
    assert (await read(kubectl, "queue", "research"))["spec"] == {"weight": 3}
    out = await kubectl.ok("apply", "-f", "-", text=QUEUE.replace("{weight: 2}", "{}"))
    assert (await read(kubectl, "queue", "research"))["spec"] == {}


def named(item: dict[str, Any]) -> str:
    """The kind with its group, as kubectl takes it: two groups may have one of the same name."""
    group, _, version = item["apiVersion"].rpartition("/")
    return f"{item['kind']}.{version}.{group}" if group else str(item["kind"])


@pytest.mark.all
async def test_volumes_devices_and_the_like(kubectl: Kubectl) -> None:
    """Applied twice, changed, read and deleted, of whatever kind they are."""
    items = [dict(written) for written, _ in WORLD.values()]
    for item in items:
        # Whose devices it has is written by the scheduler: a pod that is not there has none.
        if item["kind"] == "ResourceClaim":
            item.pop("status", None)
    text = json.dumps(a_list(*items))
    for verb in ("created", "unchanged"):
        out = await kubectl.ok("apply", "-f", "-", text=text)
        assert [line.rpartition(" ")[2] for line in out.splitlines()] == [verb] * len(items), out
    changed = json.loads(text)
    for item in changed["items"]:
        item["metadata"]["labels"] = {"changed": "yes"}
    out = await kubectl.ok("apply", "-f", "-", text=json.dumps(changed))
    assert all(line.endswith(" configured") for line in out.splitlines()), out
    kinds = ",".join(sorted({named(item) for item in items}))
    names = await kubectl.ok("get", kinds, "-n", "ns", "-l", "changed=yes", "-o", "name")
    assert len(names.splitlines()) == len(items)
    await kubectl.ok("delete", "-f", "-", text=text)
    assert (await kubectl("get", kinds, "-n", "ns", "-o", "name")).out == ""


async def test_kubectl_waits_for_running_pods_and_reapplies_unchanged(kubectl: Kubectl) -> None:
    await kubectl.ok("apply", "-f", "-", text=ALL)
    for pod in ("one", "train-w-0", "train-w-1"):
        phase = "--for=jsonpath={.status.phase}=Running"
        await kubectl.ok("wait", phase, f"pod/{pod}", "--timeout=60s")
    out = await kubectl.ok("apply", "-f", "-", text=GANG + "---" + JOB)
    assert all(line.endswith("unchanged") for line in out.splitlines()), out
    assert (await kubectl("diff", "-f", "-", text=GANG + "---" + JOB)).code == 0


async def test_server_side_apply(kubectl: Kubectl) -> None:
    ssa = ("apply", "--server-side", "-f", "-")
    for _ in range(2):
        out = await kubectl.ok(*ssa, text=ALL)
        assert out.splitlines()[3] == "pod/one serverside-applied"
    before = await version(kubectl, "queue", "research")
    await kubectl.ok(*ssa, text=QUEUE)
    assert await version(kubectl, "queue", "research") == before
    assert (await kubectl("diff", *ssa[1:], text=QUEUE)).code == 0

    other = (*ssa, "--field-manager=other")
    changed = QUEUE.replace("weight: 2", "weight: 5")
    result = await kubectl(*other, text=changed)
    assert result.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.weight' in result.err
    await kubectl.ok(*other, "--force-conflicts", text=changed)
    queue = await read(kubectl, "queue", "research")
    assert queue["spec"] == {"weight": 5}
    owners = {m["manager"]: m["fieldsV1"] for m in queue["metadata"]["managedFields"]}
    assert owners == {"other": {"f:spec": {"f:weight": {}}}}
    # What its owner does not say any more goes.
    await kubectl.ok(*other, text=QUEUE.replace("{weight: 2}", "{reclaimable: false}"))
    assert (await read(kubectl, "queue", "research"))["spec"] == {"reclaimable": False}


@pytest.mark.all
async def test_from_one_apply_to_the_other(kubectl: Kubectl) -> None:
    """kubectl hands the fields of its client-side applies over to its server-side ones."""
    await kubectl.ok("apply", "-f", "-", text=ALL)
    for _ in range(2):
        await kubectl.ok("apply", "--server-side", "-f", "-", text=ALL)
    managers = (await read(kubectl, "pod", "one"))["metadata"]["managedFields"]
    assert all(entry["operation"] == "Apply" for entry in managers)
    await kubectl.ok(
        "apply", "--server-side", "-f", "-", text=QUEUE.replace("{weight: 2}", "{priority: 1}")
    )
    assert (await read(kubectl, "queue", "research"))["spec"] == {"priority": 1}


@pytest.mark.all
async def test_diff(kubectl: Kubectl) -> None:
    await kubectl.ok("apply", "-f", "-", text=ALL)
    result = await kubectl("diff", "-f", "-", text=QUEUE)
    assert (result.code, result.out) == (0, "")
    result = await kubectl("diff", "-f", "-", text=QUEUE.replace("weight: 2", "weight: 7"))
    assert result.code == 1
    assert "-  weight: 2\n+  weight: 7\n" in result.out
    lines = [
        line
        for line in result.out.splitlines()
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert len(lines) == 4, lines  # the generation too, and nothing else
    result = await kubectl("diff", "-f", "-", text=QUEUE.replace("research", "fresh"))
    assert result.code == 1
    assert "+  name: fresh" in result.out
    result = await kubectl("diff", "-f", "-", text=QUEUE.replace("weight: 2", "weight: x"))
    assert result.code > 1


@pytest.mark.all
async def test_dry_run(kubectl: Kubectl) -> None:
    dry = "--dry-run=server"
    out = await kubectl.ok("apply", dry, "-f", "-", text=ALL)
    assert out.splitlines()[-1] == "job.batch.volcano.sh/train created (server dry run)"
    assert (await kubectl("get", "queue", "research")).code == 1
    await kubectl.ok("apply", "-f", "-", text=ALL)
    before = await version(kubectl, "queue", "research")
    changed = QUEUE.replace("weight: 2", "weight: 5")
    for ssa in ((), ("--server-side", "--force-conflicts")):
        await kubectl.ok("apply", dry, *ssa, "-f", "-", text=changed)
    await kubectl.ok("delete", dry, "queue", "default-not", "--ignore-not-found")
    await kubectl.ok("delete", dry, "pod", "one")
    assert await version(kubectl, "queue", "research") == before
    assert "deletionTimestamp" not in (await read(kubectl, "pod", "one"))["metadata"]


@pytest.mark.all
async def test_deletion_without_the_pods_is_refused(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "-f", "-", text=ALL)
    result = await kubectl("delete", "vcjob", "train", "--cascade=orphan")
    assert result.code == 1
    assert "the pods of a Job are deleted with it: leave Orphan out" in result.err
    assert "train" in await kubectl.ok("get", "vcjob", "train")
    await kubectl.ok("create", "priorityclass", "high", "--value=1")
    await kubectl.ok("delete", "priorityclass", "high", "--cascade=orphan")  # it has no pods


@pytest.mark.all
async def test_create_twice(kubectl: Kubectl) -> None:
    out = await kubectl.ok("create", "-f", "-", text=ALL)
    assert out.splitlines()[0] == "queue.scheduling.volcano.sh/research created"
    result = await kubectl("create", "-f", "-", text=QUEUE)
    assert result.code == 1
    assert result.err.startswith("Error from server (AlreadyExists): ")
    assert 'queues.scheduling.volcano.sh "research" already exists' in result.err


async def test_delete(kubectl: Kubectl) -> None:
    await kubectl.ok("apply", "-f", "-", text=ALL)
    running_ = "--for=jsonpath={.status.phase}=Running"
    await kubectl.ok("wait", running_, "pod/one", "pod/train-w-0", "--timeout=60s")
    result = await kubectl("delete", "queue", "research")
    assert result.code == 1
    assert "PodGroup default/gang is in it" in result.err
    # a Job's pod is made anew, under another uid
    uid = (await read(kubectl, "pod", "train-w-1"))["metadata"]["uid"]
    await kubectl.ok("delete", "pod", "train-w-1", "--wait=false")
    for _ in range(600):
        if (await read(kubectl, "pod", "train-w-1"))["metadata"]["uid"] != uid:
            break
    else:
        pytest.fail("it was not made anew")
    out = await kubectl.ok("delete", "-f", "-", "--timeout=60s", text=GANG + "---" + JOB)
    assert 'job.batch.volcano.sh "train" deleted' in out
    assert (await kubectl.ok("get", "pods,podgroups,jobs", "-o", "name")) == ""
    await kubectl.ok("delete", "queue", "research", "--timeout=60s")
    await kubectl.ok("delete", "node", "n1", "--timeout=60s")
    result = await kubectl("delete", "node", "n1")
    assert result.err == 'Error from server (NotFound): nodes "n1" not found\n'
    # The names are free again.
    await kubectl.ok("create", "-f", "-", text=ALL)


@pytest.mark.all
async def test_a_finalizer_can_be_taken_away(kubectl: Kubectl) -> None:
    for finalizers in ("[example.com/a, example.com/b]", "[example.com/b]"):
        held = QUEUE.replace("name: research", f"name: research, finalizers: {finalizers}")
        await kubectl.ok("apply", "-f", "-", text=held)
    assert (await read(kubectl, "queue", "research"))["metadata"]["finalizers"] == ["example.com/b"]
    await kubectl.ok("delete", "queue", "research", "--timeout=60s")


@pytest.mark.all
async def test_delete_many_by_label(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        text = GANG.partition("---")[2].replace(
            "name: one", f"name: {name}\n  labels: {{team: red}}"
        )
        await kubectl.ok("apply", "-f", "-", text=text)
    out = await kubectl.ok("delete", "pods", "-l", "team=red", "--timeout=60s")
    assert sorted(out.splitlines()) == ['pod "a" deleted', 'pod "b" deleted']


@pytest.mark.all
async def test_labels_annotations_and_patches(kubectl: Kubectl) -> None:
    await kubectl.ok("apply", "-f", "-", text=ALL)
    for kind, name in (("pod", "one"), ("node", "n1"), ("queue", "research"), ("job", "train")):
        await kubectl.ok("label", kind, name, "team=a", "tier=b")
        await kubectl.ok("label", kind, name, "tier-")
        await kubectl.ok("annotate", kind, name, "note=some words")
        metadata = (await read(kubectl, kind, name))["metadata"]
        assert metadata["labels"].get("team") == "a"
        assert "tier" not in metadata["labels"]
        assert metadata["annotations"]["note"] == "some words"
    pod = await read(kubectl, "pod", "one")
    assert pod["metadata"]["generation"] == 1
    for type, patch in (
        ("strategic", '{"metadata": {"labels": {"p": "1"}}}'),
        ("merge", '{"metadata": {"labels": {"p": "2"}}}'),
        ("json", '[{"op": "replace", "path": "/metadata/labels/p", "value": "3"}]'),
    ):
        out = await kubectl.ok("patch", "pod", "one", f"--type={type}", "-p", patch)
        assert out == "pod/one patched\n"
    assert (await read(kubectl, "pod", "one"))["metadata"]["labels"]["p"] == "3"
    result = await kubectl(
        "patch", "pod", "one", "--type=json", "-p", '[{"op":"remove","path":"/x"}]'
    )
    assert result.code == 1
    assert "does not exist" in result.err


@pytest.mark.all
async def test_edit_and_replace(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "-f", "-", text=ALL)
    editor = "sed -i 's/weight: 2/weight: 4/'"
    out = await kubectl.ok("edit", "queue", "research", KUBE_EDITOR=editor)
    assert out == "queue.scheduling.volcano.sh/research edited\n"
    text = await kubectl.ok("get", "queue", "research", "-o", "yaml")
    newer = text.replace("weight: 4", "weight: 6")
    await kubectl.ok("replace", "-f", "-", text=newer)
    assert (await read(kubectl, "queue", "research"))["spec"] == {"weight": 6}
    result = await kubectl("replace", "-f", "-", text=newer)
    assert result.err.startswith("Error from server (Conflict): ")
    # A pod that runs is shown with what the server adds, and can be given back.
    phase = "--for=jsonpath={.status.phase}=Running"
    await kubectl.ok("wait", phase, "pod/one", "--timeout=60s")
    yaml_text = await kubectl.ok("get", "pod", "one", "-o", "yaml")
    before = await version(kubectl, "pod", "one")
    await kubectl.ok("replace", "-f", "-", text=yaml_text)
    assert await version(kubectl, "pod", "one") == before


@pytest.mark.all
async def test_nodes_are_cordoned_and_tainted(kubectl: Kubectl) -> None:
    await kubectl.ok("apply", "-f", "-", text=NODE)
    assert await kubectl.ok("cordon", "n1") == "node/n1 cordoned\n"
    await kubectl.ok("apply", "-f", "-", text=QUEUE + "---" + GANG)
    result = await kubectl(
        "wait", "--for=jsonpath={.status.phase}=Running", "pod/one", "--timeout=1s"
    )
    assert result.code == 1
    assert await kubectl.ok("uncordon", "n1") == "node/n1 uncordoned\n"
    phase = "--for=jsonpath={.status.phase}=Running"
    await kubectl.ok("wait", phase, "pod/one", "--timeout=60s")

    async def taints() -> list[str]:
        return sorted(
            taint["key"] for taint in (await read(kubectl, "node", "n1"))["spec"]["taints"]
        )

    await kubectl.ok("taint", "node", "n1", "c=d:NoSchedule")
    assert await taints() == ["a", "b", "c"]
    await kubectl.ok("taint", "node", "n1", "c-")
    assert await taints() == ["a", "b"]
    await kubectl.ok(
        "apply", "-f", "-", text=NODE.replace("{key: a, effect: PreferNoSchedule}, ", "")
    )
    assert await taints() == ["b"]


async def test_kubectl_shows_the_field_and_the_remedy(kubectl: Kubectl) -> None:
    bad = GANG.partition("---")[2].replace('cpu: "1"', "cpu: lots")
    for words in (
        ("apply",),
        ("apply", "--server-side"),
        ("create",),
        ("create", "--validate=false"),
    ):
        result = await kubectl(*words, "-f", "-", text=bad)
        assert result.code == 1
        assert result.err.startswith(
            'The Pod "one" is invalid: spec.containers[0].resources.requests.cpu: Invalid value: '
        ), result.err
        assert "write a number with an optional suffix" in result.err
    await kubectl.ok("apply", "-f", "-", text=JOB)
    result = await kubectl("apply", "-f", "-", text=JOB.replace("replicas: 2", "replicas: 3"))
    assert result.err.startswith(
        'The Job "train" is invalid: spec: Forbidden: the specification of'
    )
    unknown = JOB.replace("minAvailable", "minAvailabel")
    result = await kubectl("apply", "-f", "-", text=unknown)
    assert result.err.startswith(
        'The Job "train" is invalid: spec.minAvailabel: Forbidden: unknown'
    )
    result = await kubectl("delete", "namespace", "default")
    assert result.code == 1
    assert "nobody created it" in result.err


async def test_notices_are_warnings(kubectl: Kubectl) -> None:
    result = await kubectl("apply", "-f", "-", text=GANG.partition("---")[2])
    assert result.code == 0
    assert (
        result.err == "Warning: PodGroup default/gang does not exist, so its pods wait; create it\n"
    )


@pytest.mark.all
async def test_other_namespaces_and_made_names(kubectl: Kubectl) -> None:
    text = GANG.partition("---")[2].replace("name: one", "generateName: some-")
    out = await kubectl.ok("create", "-n", "team-a", "-f", "-", "-o", "name", text=text)
    name = out.strip().removeprefix("pod/")
    assert name.startswith("some-")
    assert (await read(kubectl, "pod", name, "-n", "team-a"))["metadata"]["namespace"] == "team-a"
    result = await kubectl(
        "create",
        "-n",
        "team-b",
        "-f",
        "-",
        text=text.replace("metadata:", "metadata:\n  namespace: team-c"),
    )
    assert result.code == 1


@pytest.mark.all
async def test_run_starts_a_pod_that_asks_for_nothing(kubectl: Kubectl) -> None:
    """No request, no queue, no PodGroup: under the default policy backfill finds it a place."""
    await kubectl.ok("apply", "-f", "-", text=NODE)
    await kubectl.ok("run", "web", "--image=nginx")
    await kubectl.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    pod = await read(kubectl, "pod", "web")
    assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Running", "n1")
