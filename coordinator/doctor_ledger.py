"""The check of a ledger's server that runs elsewhere: does it keep what it acknowledges?

It asks only what the rights in docs/security.md allow, and says what it could not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.doctor import Doubt, Failed

if TYPE_CHECKING:
    from shared.settings import Settings

FULL = 0.8
"""Part of the memory it may use, above which it will soon refuse to write."""

_WEAKER = {
    "always": "nothing that was acknowledged",
    "everysec": "about the last second before a power failure",
    "no": "what its system had not written before a power failure, often 30 seconds",
}
"""What each way to sync may lose."""


def external_ledger(given: Settings) -> str:
    """Raises Failed, Doubt."""
    import asyncio

    from redis.exceptions import RedisError

    remedy = (
        "start it, or correct QUADRANT_REDIS_URL, QUADRANT_REDIS_USERNAME and "
        "QUADRANT_REDIS_PASSWORD"
    )
    try:
        found = asyncio.run(_ask(given))
    except (RedisError, OSError, ValueError) as error:
        raise Failed(f"{given.redis_url}: {error}", remedy) from None
    return judge(str(given.redis_url), given.fsync, found)


async def _ask(given: Settings) -> dict[str, Any]:
    from redis.exceptions import NoPermissionError, ResponseError

    from shared.ledger.client import open_client

    client = open_client(given.access(), limit=5.0, size=1)
    try:
        await client.ping()
        found: dict[str, Any] = dict(await client.info("persistence"))
        found |= await client.info("memory")
        found |= {"role": (await client.info("replication")).get("role", "")}
        try:
            asked = await client.config_get("appendfsync")
        except (NoPermissionError, ResponseError):
            asked = {}
        return found | {_text(name): _text(value) for name, value in asked.items()}
    finally:
        await client.aclose()
        await client.connection_pool.disconnect()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def judge(url: str, fsync: str, found: dict[str, Any]) -> str:
    """``fsync``: what the settings promise. Raises Failed, Doubt; else what to say of it."""
    if not found.get("aof_enabled"):
        raise Failed(
            f"{url} keeps no append-only file: what it acknowledged dies with it",
            "set appendonly yes and appendfsync always there",
        )
    if found.get("role", "master") != "master":
        raise Failed(
            f"{url} is a copy of another server and cannot be written",
            "name the one it copies in QUADRANT_REDIS_URL",
        )
    policy = found.get("maxmemory_policy", "noeviction")
    if found.get("maxmemory") and policy != "noeviction":
        raise Failed(
            f"{url} throws data away when its memory is full (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction there",
        )
    _doubts(url, fsync, found)
    return f"{url} answers, keeps an append-only file and syncs it {_how(found)}"


def _how(found: dict[str, Any]) -> str:
    return {"always": "before it answers", "everysec": "every second"}.get(
        found.get("appendfsync", ""), "when its system does"
    )


def _doubts(url: str, fsync: str, found: dict[str, Any]) -> None:
    syncs = found.get("appendfsync")
    if syncs is None:
        raise Doubt(
            f"{url} does not tell how it syncs its append-only file",
            f"see there that appendfsync is {fsync}, or allow CONFIG GET to our user",
        )
    order = list(_WEAKER)
    if syncs in order and order.index(syncs) > order.index(fsync):
        raise Doubt(
            f"{url} has appendfsync {syncs}: it may lose {_WEAKER[syncs]}",
            f"set appendfsync {fsync} there, or tell the coordinator with QUADRANT_FSYNC={syncs}",
        )
    limit, used = found.get("maxmemory", 0), found.get("used_memory", 0)
    if limit and used > FULL * limit:
        raise Doubt(
            f"{url} uses {100 * used // limit} % of the memory it may use; "
            "when that is full it refuses to write",
            "raise maxmemory there",
        )
    if found.get("aof_last_write_status", "ok") != "ok":
        raise Doubt(f"{url} could not write its append-only file", "look at its disk and its log")
