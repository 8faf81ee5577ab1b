"""The check of a ledger's server that runs elsewhere: does it keep what it acknowledges?

It asks only what the rights in docs/security.md allow, and says what it could not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.cli.admin.doctor import DoctorWarning, Failed

if TYPE_CHECKING:
    from shared.settings.settings import Settings

FULL = 0.8
"""Part of the memory it may use, above which it will soon refuse to write."""

_WEAKER = {
    "always": "nothing that was acknowledged",
    "everysec": "about the last second before a power failure",
    "no": "what its system had not written before a power failure, often 30 seconds",
}
"""Possible loss with each way to sync."""


def external_ledger(settings: Settings) -> str:
    """Raises Failed, Doubt."""
    import asyncio

    from redis.exceptions import RedisError

    remedy = (
        "start it, or correct QUADRANT_REDIS_URL, QUADRANT_REDIS_USERNAME and "
        "QUADRANT_REDIS_PASSWORD"
    )
    try:
        answers = asyncio.run(_ask(settings))
    except (RedisError, OSError, ValueError) as error:
        raise Failed(f"{settings.redis_url}: {error}", remedy) from None
    return judge(str(settings.redis_url), settings.fsync, answers)


async def _ask(settings: Settings) -> dict[str, Any]:
    from redis.exceptions import NoPermissionError, ResponseError

    from shared.ledger.redis.connection import open_client

    client = open_client(settings.access(), limit=5.0, size=1)
    try:
        await client.ping()
        answers: dict[str, Any] = dict(await client.info("persistence"))
        answers |= await client.info("memory")
        answers |= {"role": (await client.info("replication")).get("role", "")}
        try:
            sync_settings = await client.config_get("appendfsync")
        except (NoPermissionError, ResponseError):
            sync_settings = {}
        return answers | {_text(name): _text(value) for name, value in sync_settings.items()}
    finally:
        await client.aclose()
        await client.connection_pool.disconnect()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def judge(url: str, fsync: str, answers: dict[str, Any]) -> str:
    """Judge a server's answers; returns the text of a passed check. ``fsync``: the policy that the
    settings promise. Raises Failed, Doubt."""
    if not answers.get("aof_enabled"):
        raise Failed(
            f"{url} keeps no append-only file: what it acknowledged dies with it",
            "set appendonly yes and appendfsync always there",
        )
    if answers.get("role", "master") != "master":
        raise Failed(
            f"{url} is a copy of another server and cannot be written",
            "name the one it copies in QUADRANT_REDIS_URL",
        )
    policy = answers.get("maxmemory_policy", "noeviction")
    if answers.get("maxmemory") and policy != "noeviction":
        raise Failed(
            f"{url} throws data away when its memory is full (maxmemory-policy {policy})",
            "set maxmemory-policy noeviction there",
        )
    _doubts(url, fsync, answers)
    return f"{url} answers, keeps an append-only file and syncs it {_how(answers)}"


def _how(answers: dict[str, Any]) -> str:
    return {"always": "before it answers", "everysec": "every second"}.get(
        answers.get("appendfsync", ""), "when its system does"
    )


def _doubts(url: str, fsync: str, answers: dict[str, Any]) -> None:
    syncs = answers.get("appendfsync")
    if syncs is None:
        raise DoctorWarning(
            f"{url} does not tell how it syncs its append-only file",
            f"see there that appendfsync is {fsync}, or allow CONFIG GET to our user",
        )
    order = list(_WEAKER)
    if syncs in order and order.index(syncs) > order.index(fsync):
        raise DoctorWarning(
            f"{url} has appendfsync {syncs}: it may lose {_WEAKER[syncs]}",
            f"set appendfsync {fsync} there, or tell the coordinator with QUADRANT_FSYNC={syncs}",
        )
    limit, used = answers.get("maxmemory", 0), answers.get("used_memory", 0)
    if limit and used > FULL * limit:
        raise DoctorWarning(
            f"{url} uses {100 * used // limit} % of the memory it may use; "
            "when that is full it refuses to write",
            "raise maxmemory there",
        )
    if answers.get("aof_last_write_status", "ok") != "ok":
        raise DoctorWarning(
            f"{url} could not write its append-only file", "look at its disk and its log"
        )
