"""The names of the ledger's keys. All carry one hash tag, so that they live in one cluster slot.

=============  =======  ==================================================================
key            type     content
=============  =======  ==================================================================
``meta``       hash     cluster id, schema, blessed run id, script hash, implied capacities, why
                        totals must be recounted
``epoch``      hash     writer -> ``counter:nonce``; ``<w>/lease`` -> ``end length``, microsecs of
                        the server's clock (end 0: given back); ``<w>/holder`` -> who it is
``win:<w>``    hash     writer's window: sequence -> first answer, ``top`` = highest sequence
``node``       hash     row -> packed record; ``nodespec``: row -> specification bytes
``queue``      hash     qid -> packed record; ``queuespec``: qid -> specification bytes
``class``      hash     cid -> packed requests and specification bytes
``job``        hash     jid -> packed record; ``jobspec``: jid -> specification bytes
``task``       hash     ``jid.tix`` -> packed record; a task without one is pending
``nom``        hash     jid -> packed nomination
``thing``      hash     ``row/name`` -> packed record of a named thing that is in use
``domain``     hash     ``term/domain`` -> counter
``object``     hash     key -> bytes that the ledger only keeps
``partition``  string   packed partition
``doc``        hash     object's key -> its document, bytes that the ledger only keeps
``log``        stream   every change, one entry per batch, one field ``p``
``binds``      stream   allocations and evictions to carry out, one entry per batch
=============  =======  ==================================================================
"""

from __future__ import annotations

from functools import cache

TAG = "{quadrant}"
ORDER = (
    "meta",
    "epoch",
    "log",
    "binds",
    "node",
    "nodespec",
    "queue",
    "queuespec",
    "class",
    "job",
    "jobspec",
    "task",
    "nom",
    "domain",
    "object",
    "partition",
    "doc",
    "thing",
)
"""The order in which every script receives its keys; the writer's window comes last."""

BINDERS = "binders"
"""The consumer group of the bind stream."""


@cache
def key(name: str) -> bytes:
    return f"{TAG}:{name}".encode()


def window(writer: str) -> bytes:
    return key(f"win:{writer}")


KEYS = tuple(key(name) for name in ORDER)


def script_keys(writer: str) -> tuple[bytes, ...]:
    return (*KEYS, window(writer))


def log_position(entry_id: str) -> tuple[int, int]:
    """An entry id (``milliseconds-number``) as a sort key."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
