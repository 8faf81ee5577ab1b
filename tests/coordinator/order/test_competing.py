"""Jobs that may want the same volume or device never have two turns out at a time."""

from __future__ import annotations

from coordinator.jobs.accounts import Accounts
from coordinator.order.cross_node import DEVICES, FREE, Spanning
from shared.model.constraints import Constraints
from shared.model.model import Job, Role, TaskClass
from shared.model.storage import StorageClass, Volume, VolumeClaim

PLAIN = TaskClass(((0, 1000), (2, 1)))


def with_job(spanning: Spanning, jid: int, **asks: tuple[str, ...]) -> None:
    cls = TaskClass(PLAIN.requests, constraints=Constraints(**asks))  # type: ignore[arg-type]
    roles = (Role("task", 0, 0, 1),)
    job = Job(jid, "ns", f"j{jid}", "Job", f"u{jid}", "default", 0.0, roles=roles)
    spanning.put_job(job, {0: cls})


def test_whoever_claims_devices_shares_a_key() -> None:
    spanning = Spanning()
    with_job(spanning, 1, claims=("c",))
    with_job(spanning, 2, claim_templates=("t",))
    with_job(spanning, 3)
    assert DEVICES in spanning.keys(1) and DEVICES in spanning.keys(2)
    assert spanning.members([DEVICES]) == {1, 2}
    assert spanning.touches(2) and not spanning.touches(3)


def test_volumes_are_competed_for_while_there_are_free_ones() -> None:
    spanning = Spanning()
    with_job(spanning, 1, volumes=("a",))
    with_job(spanning, 2, volumes=("b",))
    own = ["volume/ns/a"]
    assert spanning.keys(1) == own
    spanning.put_object(Volume("v", claim="ns/other"))
    assert spanning.keys(1) == own
    spanning.put_object(Volume("v"))
    assert spanning.keys(1) == [FREE, *own] and spanning.members([FREE]) == {1, 2}
    spanning.put_object(VolumeClaim("ns", "a", volume="w", bound=True))
    assert spanning.keys(1) == own and FREE in spanning.keys(2)
    spanning.drop_object(Volume("v"))
    assert FREE not in spanning.keys(2)


def test_turns_that_were_out_when_a_free_volume_came_are_waited_for() -> None:
    spanning = Spanning(lambda jid: jid == 1)
    with_job(spanning, 1, volumes=("a",))
    assert not spanning.touched([FREE])
    spanning.put_object(Volume("v"))
    assert spanning.touched([FREE])
    spanning.give_back(1)
    assert not spanning.touched([FREE])


def test_an_object_that_comes_or_goes_wakes_those_who_wait() -> None:
    accounts = Accounts()
    before = accounts.capacity.changes
    accounts.put_object(StorageClass("slow"))
    accounts.drop_object(StorageClass("slow"))
    assert accounts.capacity.changes == before + 2
