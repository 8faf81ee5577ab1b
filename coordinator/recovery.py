"""Recovery: the coordinator's state from the ledger alone."""

from __future__ import annotations

from coordinator.core import Coordinator
from coordinator.following import Following
from coordinator.intake import Intake
from shared.ledger.protocol import Snapshot


def recover(snapshot: Snapshot, intake: Intake, core: Coordinator) -> None:
    """Take up everything that was acknowledged before; see :meth:`Following.finish`.

    Binds that were not acknowledged come back through the bind stream, reports through the cluster.
    """
    following = Following(intake, core)
    following.take(snapshot)
    following.finish(snapshot.nominations, snapshot.domains)
