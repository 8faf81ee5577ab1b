"""The choice of a volume for a claim, by Kubernetes' rules."""

from __future__ import annotations

from typing import Any

from coordinator.bind.binder import BindPlan, plan_binds
from coordinator.controllers.volume_controller import (
    ClaimBinding,
    VolumeController,
    bind_claims,
    choose,
    reaches,
)
from coordinator.core.coordinator import Coordinator
from coordinator.intake.changes import Changes
from coordinator.intake.intake import Intake
from laboratory.workloads.demands import disk, storage_class, volume_claim
from shard_worker.kube_scheduler.filters.volumes import NOTHING_FREE, bound
from shared.codec.packed import replace
from shared.ledger.entries.stored import BindEntry
from shared.messages.messages import StatusItem, TaskState
from shared.model.constraints import Constraints, Requirement
from shared.model.model import Node, TaskClass
from shared.model.objects import ClusterObjects
from shared.model.storage import StorageClass, Volume, VolumeClaim
from tests.builders.rows import ONE, job
from tests.coordinator.jobs.leaving import coordinator, opened
from tests.coordinator.order.helpers import placed

NODE = Node(0, "n0", (), {"zone": "a"})
LATE = StorageClass("late", "kubernetes.io/no-provisioner", waits=True)
HERE = ((Requirement("zone", "In", ("a",)),),)
THERE = ((Requirement("zone", "In", ("b",)),),)


def objects(*values: Volume | VolumeClaim | StorageClass) -> ClusterObjects:
    cluster_objects = ClusterObjects()
    for value in (LATE, *values):
        match value:
            case Volume():
                cluster_objects.volumes[value.name] = value
            case VolumeClaim():
                cluster_objects.volume_claims[f"{value.namespace}/{value.name}"] = value
            case StorageClass():
                cluster_objects.storage_classes[value.name] = value
    return cluster_objects


def volume(name: str, capacity: int = 10, **fields: Any) -> Volume:
    return Volume(name, capacity, "late", **fields)


def claim(name: str, request: int = 5, **fields: Any) -> VolumeClaim:
    return VolumeClaim("ns", name, request=request, **{"storage_class": "late"} | fields)


def chosen(objects: ClusterObjects, *claims: str, others: tuple[ClaimBinding, ...] = ()) -> Any:
    bindings, why = choose(objects, [f"ns/{name}" for name in claims], NODE, others=others)
    return why or {binding.claim: binding.volume for binding in bindings}


def test_the_smallest_that_fits_and_the_node_reaches() -> None:
    cluster_objects = objects(
        claim("c"),
        volume("large", 20),
        volume("small", 6, affinity=HERE),
        volume("far", 5, affinity=THERE),
        volume("tiny", 4),
        volume("taken", 5, claim="ns/other"),
    )
    assert chosen(cluster_objects, "c") == {"ns/c": "small"}
    cluster_objects.volumes["mine"] = volume("mine", 30, claim="ns/c")
    assert chosen(cluster_objects, "c") == {"ns/c": "mine"}


def test_two_claims_get_two_volumes_and_others_keep_theirs() -> None:
    cluster_objects = objects(claim("a", 5), claim("b", 3), volume("x", 5), volume("y", 2))
    assert chosen(cluster_objects, "a", "b") == NOTHING_FREE  # b, the smaller one, takes x
    cluster_objects.volumes["z"] = volume("z", 9)
    assert chosen(cluster_objects, "a", "b") == {"ns/b": "x", "ns/a": "z"}
    other = ClaimBinding("ns/a", "z", NODE)
    assert chosen(cluster_objects, "a", "b", others=(other,)) == {"ns/b": "x"}


def test_nothing_free_missing_or_immediate_is_told() -> None:
    at_once = claim("i", storage_class="now")
    cluster_objects = objects(
        claim("c"), at_once, StorageClass("now", "x"), volume("far", affinity=THERE)
    )
    assert chosen(cluster_objects, "c") == NOTHING_FREE
    assert chosen(cluster_objects, "gone") == 'persistentvolumeclaim "gone" not found'
    assert chosen(cluster_objects, "i") == 'persistentvolumeclaim "i" is bound by nobody here'


def test_a_class_creates_where_its_topologies_allow() -> None:
    makes = StorageClass("late", "csi.example.com", waits=True, topologies=HERE)
    assert chosen(objects(claim("c"), makes), "c") == {"ns/c": ""}
    far = replace(makes, topologies=THERE)
    assert chosen(objects(claim("c"), far), "c") == NOTHING_FREE


def test_a_claim_whose_node_is_selected_gets_its_volume_there_and_nowhere_else() -> None:
    """And a new one: who selected the node asked its provisioner."""
    makes = replace(LATE, provisioner="csi")
    here = replace(claim("c"), node="n0")
    assert chosen(objects(here, makes, volume("free")), "c") == {"ns/c": ""}
    there = replace(claim("c"), node="n1")
    assert "gets its volume on node n1" in chosen(objects(there, makes), "c")


def test_terms_on_one_node() -> None:
    named = Requirement("metadata.name", "In", ("n0",), field=True)
    assert reaches(None, NODE)
    assert not reaches((), NODE)
    assert not reaches(((),), NODE)
    assert reaches((*THERE, (named, *HERE[0])), NODE)
    assert not reaches(((named, *THERE[0]),), NODE)


def test_a_volume_gets_only_one_claim() -> None:
    intake = Intake()
    items = [storage_class(), disk("d", "n0"), *(volume_claim(name, "ns") for name in "ab")]
    assert not intake.admit(items, 1.0).refused
    first = bind_claims(intake, [ClaimBinding("ns/a", "d", NODE)], 2.0)
    assert len(first.documents) == 2
    assert bind_claims(intake, [ClaimBinding("ns/b", "d", NODE)], 3.0).documents == []
    assert bind_claims(intake, [ClaimBinding("ns/a", "d", NODE)], 3.0).documents == []
    by_key = intake.registry.objects
    a, b = by_key["volumeclaim/ns/a"], by_key["volumeclaim/ns/b"]
    assert isinstance(a, VolumeClaim) and isinstance(b, VolumeClaim)
    assert bound(a) and not bound(b)
    disk_now = by_key["volume/d"]
    assert isinstance(disk_now, Volume) and disk_now.claim == "ns/a"


def waiting() -> tuple[Coordinator, BindPlan, VolumeController]:
    """A task with a claim has a place, and its bind waits for the volume."""
    asks = TaskClass(ONE.requests, constraints=Constraints(volumes=("c",)))
    core = coordinator(job(1))
    changes = Changes(classes={0: asks}, jobs=[job(1)], objects=[claim("c"), volume("v"), LATE])
    core.admitted(changes)
    ((call, turn),) = opened(core).values()
    core.turns_returned(0, call, [placed(turn)])
    plan = plan_binds(
        [BindEntry("1-0", [(1, 0, [0], [0])])], jobs=lambda _: job(1), node={0: "n0"}.get
    )
    assert plan is not None
    return core, plan, VolumeController(core)


# --- asked of others ------------------------------------------------------------------------------


def test_a_volume_is_requested_once_and_a_refusal_ends_the_wait() -> None:
    _, plan, controller = waiting()
    assert [b.claim for b in controller.look(plan).bindings] == ["ns/c"]
    look = controller.look(plan, asked=lambda key: key == "ns/c")
    assert (look.bindings, look.waiting.jids, look.items) == ([], [1], [])
    look = controller.look(plan, refused={"ns/c": "its provisioner gave up"})
    assert (look.bindings, look.waiting.jids) == ([], [])
    assert look.items == [StatusItem(TaskState.PENDING, 1, [0], [0])]


# --- a node that is not there ---------------------------------------------------------------------


def test_a_task_waiting_for_a_volume_on_a_deleted_node_is_unbound() -> None:
    """Seed 130278: the node was deleted and came back, which the ledger and the workers knew
    already. The bind went out, and the cluster took it, before there was a volume."""
    core, plan, controller = waiting()
    assert controller.look(plan).waiting.jids == [1]
    core.admitted(Changes(nodes_gone=[0]))
    look = controller.look(plan)
    assert (look.ready.jids, look.waiting.jids) == ([], [])
    assert look.items == [StatusItem(TaskState.PENDING, 1, [0], [0])]
    core.admitted(Changes(objects=[claim("c", volume="v", bound=True), volume("v", claim="ns/c")]))
    assert controller.look(plan).ready.jids == [1], "the cluster says that the node is gone"
