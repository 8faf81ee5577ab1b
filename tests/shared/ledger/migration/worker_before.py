"""A worker and a leader of schema 4, as far as the ledger sees them: the calls they send.

``scripts-4`` has the scripts of the version that left ``schema-4.json``; the ledger in it names
their digest. Statements without devices have the same form in both versions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgpack

from shared.ledger import codec
from shared.ledger.keys import ORDER, key, window
from shared.ledger.records import unpack_job, unpack_node
from shared.messages.messages import NOMINATE, Run, Statement, Verdict

DIRECTORY = Path(__file__).parent / "scripts-4"
_JUDGING, _OWNING = ("prelude",), ("prelude", "lease")
PARTS = {
    "commit": (*_JUDGING, "batch", "rules", "evict", "commit"),
    "record": (*_JUDGING, "record"),
    "store": (*_JUDGING, "store"),
    "claim": (*_OWNING, "claim"),
    "renew": (*_OWNING, "renew"),
    "release": (*_OWNING, "release"),
    "bless": (*_OWNING, "bless"),
}
"""Script -> its files, as that version composed them."""

SCHEMA = 4
CODES = {verdict.value: verdict for verdict in Verdict}


@cache
def script(name: str) -> bytes:
    return b"".join((DIRECTORY / f"{part}.lua").read_bytes() for part in PARTS[name])


def scripts_digest() -> bytes:
    """As that version's leader wrote it into the ledger when it accepted a run of the server."""
    texts = b"".join(map(script, ("commit", "record", "store")))
    return hashlib.sha256(texts).hexdigest().encode()


def keys_for(writer: str) -> list[bytes]:
    """That version's keys: it had no named things."""
    return [*(key(name) for name in ORDER if name != "thing"), window(writer)]


@dataclass(slots=True)
class WriterBefore:
    """A process of the version before that holds an epoch, and does not hear what happens."""

    client: Any
    writer: str
    epoch: str
    run: str
    """The run of the server that its leader had accepted."""
    sent: int = field(default=10**6)
    """Its last sequence number."""

    def call(self, name: str, *args: bytes | str | int) -> Any:
        said = [self.writer, self.epoch, *args]
        arguments = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in said]
        keys = keys_for(self.writer)
        seal = hashlib.sha1(b"\n".join((*keys, *arguments)), usedforsecurity=False).hexdigest()
        return self.client.eval(script(name), len(keys), *keys, *arguments, seal)

    def batch(self, name: str, packed: bytes, *args: bytes | str) -> tuple[Verdict, list[Verdict]]:
        """The ledger's word on a batch of commit, record or store, and on each statement in it."""
        self.sent += 1
        answer = msgpack.unpackb(self.call(name, self.sent, self.run, packed, *args)[0])
        verdict, *rest = answer
        statements = [CODES[code] for code in rest[0]] if name == "commit" and rest else []
        return CODES[verdict], statements

    def commit(self, *statements: Statement) -> tuple[Verdict, list[Verdict]]:
        return self.batch("commit", codec.pack_statements([*statements]), "")

    def renew(self) -> bool:
        """Whether its lease begins anew."""
        return bool(self.call("renew", 60_000_000))


def writer_before(client: Any, name: str) -> WriterBefore:
    """The one that holds the writer's epoch in the ledger, in the run that was accepted last; its
    lease lasts."""
    client.hdel(key("epoch"), f"{name}/lease")
    epoch, run = client.hget(key("epoch"), name), client.hget(key("meta"), "run")
    return WriterBefore(client, name, epoch.decode(), run.decode())


def renewed_promise(client: Any) -> Statement:
    """A statement that the ledger takes: a job asks again for the places that it is promised."""
    ((jid, packed),) = client.hgetall(key("nom")).items()
    priority, _, expiry, runs = msgpack.unpackb(packed[:-8])
    job = unpack_job(client.hget(key("job"), jid), f"job {int(jid)}")
    asked = []
    for cid, group, tasks, rows, levels in runs:
        nodes = [unpack_node(client.hget(key("node"), row)) for row in rows]
        versions, specs = [node[0] for node in nodes], [node[1] for node in nodes]
        asked.append(Run(NOMINATE, cid, group, tasks, rows, versions, specs, levels))
    return Statement(
        jid=int(jid),
        job_version=job.spec_version,
        qid=job.qid,
        priority=priority,
        core=asked,
        tail=[],
        displaced=[],
        domains=[],
        expiry=expiry,
    )
