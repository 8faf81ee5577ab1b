"""The seeded run: coordinator, workers, ledger and cluster in one process, on virtual time.

Everything that decides is the production code: the coordinator's state machine, the workers', the
ledger's rules (its double), the simulated kubelets, intake. Only what carries messages is replaced:
each message takes a delay drawn from the seed, so that messages overtake each other, workers plan
on old views, outcomes arrive after the tasks they speak of have ended. Some messages are said
twice, some are lost with their sender. Coordinators die and are succeeded by one that knows only
what the ledger holds; the ledger's server comes back and has to be accepted anew. The same seed
repeats the run to the last event.
"""

from __future__ import annotations

from coordinator.simulation.life import settled
from coordinator.simulation.run import Simulation
from coordinator.simulation.timeline import Network

__all__ = ["Network", "Simulation", "settled"]
