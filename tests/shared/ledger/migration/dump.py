"""A ledger as a file: every key with what is in it, and what the cluster ran at that moment.

Readable by any version and any server: no RESTORE payloads, whose form is the server's own.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ClusterColumns:
    """What runs where; parallel columns, as a listing has them."""

    tasks: list[str]
    uids: list[str]
    nodes: list[str]
    phases: list[int]


def path_of(schema: int) -> Path:
    return DIRECTORY / f"schema-{schema}.json"


def write(path: Path, client: Any, cluster: ClusterColumns) -> None:
    keys = {name.decode(): _value(client, name) for name in sorted(client.keys("*"))}
    path.write_text(json.dumps({"cluster": asdict(cluster), "keys": keys}, indent=0) + "\n")


def _value(client: Any, name: bytes) -> dict[str, Any]:
    kind = client.type(name).decode()
    match kind:
        case "string":
            return {"string": _text(client.get(name))}
        case "hash":
            found = sorted(client.hgetall(name).items())
            return {"hash": [[_text(field), _text(value)] for field, value in found]}
        case "stream":
            return {"stream": _entries(client, name), "groups": _groups(client, name)}
        case _:
            raise ValueError(f"{name!r} is a {kind}")


def _entries(client: Any, name: bytes) -> list[Any]:
    return [
        [at.decode(), [[_text(field), _text(value)] for field, value in fields.items()]]
        for at, fields in client.xrange(name)
    ]


def _groups(client: Any, name: bytes) -> list[Any]:
    groups = []
    for group in client.xinfo_groups(name):
        own = group["name"].decode()
        pending = client.xpending_range(name, own, "-", "+", 1000) if group["pending"] else []
        held = [[entry["message_id"].decode(), entry["consumer"].decode()] for entry in pending]
        groups.append([own, group["last-delivered-id"].decode(), held])
    return groups


def load(path: Path, client: Any) -> ClusterColumns:
    """Into a server, which is emptied first."""
    found = json.loads(path.read_text())
    client.flushall()
    for name, value in found["keys"].items():
        match value:
            case {"string": text}:
                client.set(name, _bytes(text))
            case {"hash": pairs}:
                client.hset(name, items=[_bytes(text) for pair in pairs for text in pair])
            case {"stream": entries, "groups": groups}:
                _load_stream(client, name, entries, groups)
            case _:
                raise ValueError(f"{path}: {name} is of no kind known here")
    return ClusterColumns(**found["cluster"])


def _load_stream(client: Any, name: str, entries: list[Any], groups: list[Any]) -> None:
    for at, pairs in entries:
        client.xadd(name, {_bytes(field): _bytes(value) for field, value in pairs}, id=at)
    for own, delivered, held in groups:
        client.xgroup_create(name, own, id=delivered, mkstream=True)
        for at, consumer in held:
            client.xclaim(name, own, consumer, 0, [at], force=True, justid=True)


def _text(value: bytes) -> str:
    """Base64 only where it is no plain text."""
    if value.isascii() and value.decode().isprintable() and not value.startswith(b"b64:"):
        return value.decode()
    return "b64:" + base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text[4:]) if text.startswith("b64:") else text.encode()
