"""Health endpoints, for probes and people.

``/livez`` and ``/readyz`` answer in plain text as Kubernetes' own servers do: ``?verbose`` lists
the checks, ``?exclude=NAME`` skips one, ``/readyz/NAME`` runs one. ``/healthz`` is an alias of
``/livez``. ``/health`` returns everything as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.http.responses import json_answer
from coordinator.errors import Problem
from shared.errors import shown


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check. ``look`` returns the problem, "" if there is none, and must not block.

    A check that is not ``needed`` is reported, but does not make the process unready.
    """

    name: str
    look: Callable[[], str]
    needed: bool = True
    note: Callable[[], str] = lambda: ""
    """Returns what is good to know where there is no problem, "" for nothing."""


PING = HealthCheck("ping", lambda: "")
"""Passes if the process answers at all."""


def health_routes(checks: Sequence[HealthCheck]) -> list[web.RouteDef]:
    return [
        *_probe("livez", [PING]),
        *_probe("healthz", [PING]),
        *_probe("readyz", [PING, *checks]),
        web.get("/health", _health(checks)),
    ]


def _probe(path: str, checks: Sequence[HealthCheck]) -> list[web.RouteDef]:
    by_name = {check.name: check for check in checks}

    async def all_of_them(request: web.Request) -> web.StreamResponse:
        left_out = set(request.query.getall("exclude", []))
        unknown = left_out - by_name.keys()
        if unknown:
            raise _no_check(min(unknown), by_name)
        chosen = [c for c in checks if c.name not in left_out and (c.needed or _verbose(request))]
        return _told(path, chosen, verbose=_verbose(request))

    async def one(request: web.Request) -> web.StreamResponse:
        name = request.match_info["check"]
        if name not in by_name:
            raise _no_check(name, by_name)
        return _told(f"{path}/{name}", [by_name[name]], verbose=_verbose(request))

    return [web.get(f"/{path}", all_of_them), web.get(f"/{path}/{{check}}", one)]


def _told(path: str, checks: Sequence[HealthCheck], *, verbose: bool) -> web.Response:
    lines = []
    passed = True
    single = len(checks) == 1
    for check in checks:
        wrong = check.look()
        well = ": ".join(filter(None, (f"[+]{check.name} ok", check.note())))
        lines.append(f"[-]{check.name} failed: {wrong}" if wrong else well)
        passed = passed and not (wrong and (check.needed or single))
    lines.append(f"{path} check {'passed' if passed else 'failed'}")
    status = HTTPStatus.OK if passed else HTTPStatus.SERVICE_UNAVAILABLE
    text = "ok" if passed and not verbose else "\n".join(lines)
    return web.Response(status=status, text=text + "\n")


def health_answer(checks: Sequence[HealthCheck]) -> dict[str, Any]:
    """The body of ``/health``."""
    results = [(check, check.look()) for check in checks]
    return {
        "healthy": not any(wrong for _, wrong in results),
        "ready": not any(wrong for check, wrong in results if check.needed),
        "checks": [
            {
                "name": c.name,
                "healthy": not wrong,
                "needed": c.needed,
                "message": wrong or c.note() or "ok",
            }
            for c, wrong in results
        ],
    }


def _health(checks: Sequence[HealthCheck]) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        body = health_answer(checks)
        status = HTTPStatus.OK if body["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer(body, status=status)

    return handler


def _verbose(request: web.Request) -> bool:
    return request.query.get("verbose", "false") in ("", "true", "1")


def _no_check(name: str, by_name: dict[str, HealthCheck]) -> Problem:
    message = f"there is no check {shown(name)}; there are {', '.join(by_name)}"
    return Problem(HTTPStatus.NOT_FOUND, message)
