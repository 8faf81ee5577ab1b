"""The permissions that our user needs on an external server, and no more."""

from __future__ import annotations

from shared.ledger.keys import TAG

USER = "quadrant"

COMMANDS = {
    "evalsha": "every change: one call of a script for each batch",
    "script|load": "the scripts, once in each run of the server",
    "info": "the run of the server; its memory and persistence, for quadrant doctor",
    "ping": "quadrant doctor",
    "config|get": "how it syncs, for quadrant doctor",
    "time": "scripts: leases end by the server's clock",
    "exists": "whether it holds anything",
    "type": "scripts: whether a key has another form, before anything is written",
    "get": "the partition",
    "set": "scripts: the partition",
    "del": "scripts: the window of a writer, at the beginning of its epoch",
    "hget": "the identity record",
    "hmget": "some records",
    "hscan": "all records",
    "hset": "scripts: records; how far the log was cut",
    "hsetnx": "the identity of a new ledger",
    "hdel": "scripts: records that are forgotten",
    "hlen": "how many records there are",
    "hkeys": "scripts: whether a queue that goes has others below it; claims to be told",
    "xadd": "scripts: the log and the binds",
    "xread": "the log",
    "xrange": "whether the log has an entry",
    "xrevrange": "where the log is cut",
    "xtrim": "cutting the log and the binds",
    "xinfo|stream": "the end of the log",
    "xinfo|groups": "how far the binds were delivered",
    "xgroup|create": "the binders' group",
    "xreadgroup": "the binds",
    "xautoclaim": "binds of a coordinator that died",
    "xpending": "binds that are not acknowledged",
    "xack": "acknowledging binds",
}
"""Command -> what it is needed for. Commands within scripts need the same permission."""


def acl_rule(user: str = USER, commands: tuple[str, ...] = tuple(COMMANDS)) -> str:
    """A line of an ACL file, with PASSWORD where the password goes."""
    allowed = " ".join(f"+{command}" for command in commands)
    return f"user {user} on >PASSWORD resetkeys ~{TAG}:* resetchannels -@all {allowed}"
