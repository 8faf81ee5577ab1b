"""Debugging requests of an administrator to a process of the running service.

=================================================  =================================================
``GET .../debug/ROLE/dump``                        its own view: nodes, queues, jobs, versions
``GET .../debug/ROLE/profile?seconds=``            its threads' stacks, sampled, folded
``PUT .../debug/ROLE/loglevel?level=``             from which level on it logs
=================================================  =================================================

ROLE is ``coordinator`` (who answers: the leader) or ``shard-N``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from coordinator.api.change.bodies import bad
from coordinator.api.http.responses import json_answer
from coordinator.core.coordinator import Coordinator
from coordinator.core.dump import dump_of_core
from coordinator.dispatch.worker_client import Shards, WorkerLost
from coordinator.errors import Problem
from shard_worker.worker.debugging import DebugRequest, DebugVerb, answer_of_process
from shared import garbage_collection
from shared.errors import shown
from shared.telemetry.logging import LEVELS

BASE = "/apis/quadrant.dev/v1alpha1/debug/{role}"
SECONDS = 5
LONGEST_SECONDS = 60
RETRY_SECONDS = 2.0
COORDINATOR = "coordinator"
_SHARD = re.compile(r"shard-(\d{1,4})")


class Debugging:
    """One question at a time: each costs the process that is asked."""

    def __init__(self, core: Coordinator, shards: Shards, names: Callable[[], list[str]]) -> None:
        self._core = core
        self._shards = shards
        self._names = names
        self._asked = False

    async def dump(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, DebugRequest(DebugVerb.DUMP))

    async def profile(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("seconds", str(SECONDS))
        if not (
            text.isascii()
            and text.isdigit()
            and len(text) < 4
            and 1 <= int(text) <= LONGEST_SECONDS
        ):
            raise bad(f"seconds={shown(text)}: write a number from 1 to {LONGEST_SECONDS}")
        return await self._answer(request, DebugRequest(DebugVerb.PROFILE, seconds=float(text)))

    async def log_level(self, request: web.Request) -> web.StreamResponse:
        level = request.query.get("level", "")
        if level not in LEVELS:
            raise bad(f"level={shown(level)}: write one of {', '.join(LEVELS)}")
        return await self._answer(request, DebugRequest(DebugVerb.LOG_LEVEL, level=level))

    async def _answer(self, request: web.Request, ask: DebugRequest) -> web.Response:
        role = request.match_info["role"]
        shard = self._shard(role)
        if self._asked:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "another process is being looked at; ask again when that is over",
                retry_after=RETRY_SECONDS,
            )
        self._asked = True
        try:
            answer = await (self._here(ask) if shard is None else self._there(shard, ask))
        finally:
            self._asked = False
        return json_answer({"role": role, **answer})

    def _shard(self, role: str) -> int | None:
        """The number of a shard; None for the coordinator. Raises Problem (404)."""
        match = _SHARD.fullmatch(role)
        if role != COORDINATOR and (
            match is None or int(match[1]) not in self._core.dispatcher.shards
        ):
            most = len(self._core.dispatcher.shards) - 1
            raise Problem(
                HTTPStatus.NOT_FOUND,
                f"role {shown(role)} is not known; write {COORDINATOR}, or shard-0 to shard-{most}",
            )
        return None if match is None else int(match[1])

    async def _here(self, ask: DebugRequest) -> dict[str, Any]:
        if ask.verb is DebugVerb.DUMP:
            process = {"pid": os.getpid(), "garbageCollection": garbage_collection.figures()}
            return process | dump_of_core(self._core, names=self._names())
        return await asyncio.to_thread(answer_of_process, ask)

    async def _there(self, shard: int, ask: DebugRequest) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = orjson.loads(await self._shards.debug(shard, ask))
        except WorkerLost as error:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{error}; try again", retry_after=RETRY_SECONDS
            ) from error
        return answer


def debug_routes(debugging: Debugging) -> list[web.RouteDef]:
    return [
        web.get(f"{BASE}/dump", debugging.dump, allow_head=False),
        web.get(f"{BASE}/profile", debugging.profile, allow_head=False),
        web.put(f"{BASE}/loglevel", debugging.log_level),
    ]
