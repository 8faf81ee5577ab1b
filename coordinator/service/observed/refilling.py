"""A ledger of a Kubernetes cluster that was lost, or is older than what was seen: begun anew.

What is kept in it is on the cluster too (decision 0083), and is read from there by the first
leader. So nobody has to decide anything: in the place of an empty server, and of an old copy, there
is a new ledger with an id of its own. The old id stands on the cluster's Lease, so that the new
leader waits for the end of whatever the old one sent (decision 0097).
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import structlog

from shared.ledger.redis.acceptance import LedgerAcceptance, LedgerCondition, judge
from shared.ledger.redis.access import Access
from shared.ledger.redis.identity import LedgerIdentityNote, expected, note, path_of
from shared.ledger.retry import insist

LOST = (LedgerCondition.EMPTY, LedgerCondition.OLD_COPY)
"""Not another's ledger, nor records without a name: somebody has mistaken the server."""
AGAIN_SECONDS = 0.2
PATIENCE_SECONDS = 15.0
"""How long it waits for the end of a lease that the copy has, or for the note of who was faster."""

log = structlog.get_logger(__name__)


async def refilled(access: Access, data_dir: Path, cluster_id: str) -> LedgerIdentityNote:
    """The ledger to expect; begun anew where ours is lost. ``cluster_id``: the id that the settings
    ask for; such a ledger is never replaced by another."""
    identity = expected(data_dir, cluster_id)
    if cluster_id or not identity.cluster:
        return identity
    care = LedgerAcceptance(access)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                identity = expected(data_dir, cluster_id)
                state = await insist(partial(care.look, identity), call_name="look")
                condition = judge(state, identity)
                if condition not in (*LOST, LedgerCondition.ANOTHER):
                    return identity
                founded = await care.begin_anew(state) if condition in LOST else None
                if founded is not None:
                    await asyncio.to_thread(note, path_of(data_dir), founded)
                    log.error(
                        "The ledger is lost and begun anew: objects and what runs are read from "
                        "the cluster; decisions under way and promises are made again",
                        was=condition.value,
                        ledger=identity.cluster,
                        now=founded.cluster,
                        lost=state.counts,
                    )
                    return founded
                await asyncio.sleep(AGAIN_SECONDS)
    except TimeoutError:
        return identity  # opening it says what is wrong
    finally:
        await care.close()
