"""Digest of everything that a coordinator and its workers must agree on.

Two versions with the same digest may serve one ledger side by side: they read each other's
messages, they read what the other one stored, and their commits are judged by the same scripts
(docs/decisions/0113). ``python -m shard_worker.worker.wire`` prints ``shared/wire_digest.py``, so
that the command knows it without loading a worker.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import FunctionType

from shard_worker.inquiry.findings import InquiryFindings
from shard_worker.inquiry.inquiry import Inquiry
from shard_worker.worker.actor import ShardActor
from shard_worker.worker.debugging import DebugRequest
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.codec.type_digest import description, digest
from shared.ledger.redis.calls import PARTS, script
from shared.messages.messages import Turn
from shared.messages.turn_context import TurnContext
from shared.model.model import Job, Node, PriorityClass, Queue, TaskClass
from shared.model.topology import HyperNode
from shared.records.quarantine import Quarantine
from shared.records.specs import OBJECT_KEYS
from shared.records.specs_base import FORMAT

MEANING = 1
"""Raised by hand where a field keeps its name and type, and means something else than before."""

SENT: tuple[object, ...] = (
    *(WorkerConfig, list[Turn], TurnContext, PlaceReply),
    *(Inquiry, InquiryFindings, DebugRequest),
)
"""The types of what a coordinator and a worker send each other."""

STORED: tuple[object, ...] = (
    *(Node, TaskClass, Queue, Job, HyperNode, PriorityClass, Quarantine),
    *OBJECT_KEYS,
)
"""The types of what a coordinator stores in the ledger and a worker reads there."""

SHOWN = 12
"""Digits of the digest that are used: people compare them."""


@cache
def own_wire() -> str:
    """The digest of this version. Of all scripts, not only of those that a worker calls: what the
    others write into the log and the records, it reads."""
    scripts = {name: script(name)[1] for name in PARTS}
    return wire_digest([*SENT, *STORED], methods=methods_of(ShardActor), scripts=scripts)


def wire_digest(
    types: Sequence[object], *, methods: Mapping[str, str], scripts: Mapping[str, str]
) -> str:
    """``methods``: of the actor, name -> parameters; ``scripts``: name -> digest of its text."""
    described = [*map(description, types)]
    both = [sorted(methods.items()), sorted(scripts.items())]
    return digest([MEANING, FORMAT, described, *both])[:SHOWN]


def methods_of(actor: type) -> dict[str, str]:
    """Its methods, also those that nobody calls: Ray makes no actor of a class that lacks one. From
    their code, because Ray gives the methods of a class in its processes another signature."""
    methods = {name: inspect.unwrap(m) for name, m in vars(actor).items() if inspect.isfunction(m)}
    return {name: _parameters(method) for name, method in methods.items()}


def _parameters(method: FunctionType) -> str:
    code = method.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return str([(name, method.__annotations__.get(name)) for name in (*names, "return")])


_PAGE = '''"""Digest of the wire format that a coordinator and its workers must have in common.

Written by ``make reference``. A worker and its coordinator compute it: shard_worker.worker.wire.
"""

from __future__ import annotations

WIRE = "{}"
'''


def page() -> str:
    return _PAGE.format(own_wire())


if __name__ == "__main__":
    sys.stdout.write(page())
