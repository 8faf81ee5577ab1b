"""A task class as the operation that stores it."""

from __future__ import annotations

from shared.ledger.entries.intake_batch import PutClass
from shared.ledger.entries.stored import ThingAsk
from shared.model.model import TaskClass
from shared.records.specs import encode_class
from shared.units.queue_slots import OFFERED
from shared.units.things import implied


def put_class(cid: int, cls: TaskClass) -> PutClass:
    """The operation that stores a task class: its requests as the ledger's scripts read them, and
    its specification for everybody else."""
    requests = [(slot, amount, 0) for slot, amount in cls.requests]
    requests += [(slot, amount, OFFERED) for slot, amount in cls.charges]
    things = [ThingAsk(name, amounts, implied(name, len(amounts))) for name, amounts in cls.things]
    return PutClass(cid, requests, encode_class(cls), things)
