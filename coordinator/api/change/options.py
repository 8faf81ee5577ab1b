"""Options of writing requests, from query parameters and from the body of a deletion."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.change.bodies import bad
from coordinator.errors import Cause, Problem
from shared.errors import shown

_LONGEST_MANAGER = 128
_VALIDATION = ("", "Ignore", "Warn", "Strict")


@dataclass(frozen=True, slots=True)
class Options:
    """``manager``: the author for managed fields; ``named``: it was given explicitly."""

    dry_run: bool
    manager: str
    named: bool
    force: bool


def read_options(request: web.Request) -> Options:
    """Read the options. Raises Problem. Unknown parameters are ignored."""
    query = request.query
    manager = query.get("fieldManager", "")
    if len(manager) > _LONGEST_MANAGER or not manager.isprintable():
        raise bad(f"fieldManager is longer than {_LONGEST_MANAGER}, or not printable; shorten it")
    if query.get("fieldValidation", "") not in _VALIDATION:
        validation = shown(query["fieldValidation"])
        raise bad(f"fieldValidation is {validation}; write one of {', '.join(_VALIDATION[1:])}")
    force = query.get("force", "false")
    if force not in ("true", "false"):
        raise bad(f"force is {shown(force)}; write true or false")
    return Options(
        dry_run=_dry_run(query.getall("dryRun", [])),
        manager=manager or _agent(request),
        named=bool(manager),
        force=force == "true",
    )


def _agent(request: web.Request) -> str:
    """The program name in ``User-Agent: program/version (...)``."""
    name = request.headers.get("User-Agent", "").partition("/")[0].strip()
    return name[:_LONGEST_MANAGER] if name and name.isprintable() else "unknown"


def _dry_run(values: list[Any]) -> bool:
    for value in values:
        if value not in ("All", ""):
            raise bad(f"dryRun is {shown(value)}; write All or leave it out")
    return "All" in values


def manager_is_required() -> Problem:
    """Kubernetes' answer to an apply without a field manager."""
    cause = Cause("fieldManager", "Required value: is required for apply patch", _REQUIRED)
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
        kind="PatchOptions",
        group="meta.k8s.io",
        causes=(cause,),
    )


_REQUIRED = "FieldValueRequired"


@dataclass(frozen=True, slots=True)
class Deletion:
    """``uid`` and ``version``: delete only this incarnation, and only if nobody wrote it after
    this version; "" for any. ``orphans``: its pods are to stay."""

    dry_run: bool
    uid: str
    version: str
    orphans: bool = False


def read_deletion(body: dict[str, Any], *, dry_run: bool) -> Deletion:
    """Parse ``DeleteOptions``. Raises Problem.

    The grace period has no effect: dependents are deleted with the object.
    """
    conditions = body.get("preconditions") or {}
    again = body.get("dryRun") or []
    if not isinstance(conditions, dict) or not isinstance(again, list):
        raise bad("preconditions is not an object, or dryRun not a list; correct them")
    texts = []
    for name in ("uid", "resourceVersion"):
        value = conditions.get(name) or ""
        if not isinstance(value, str):
            raise bad(f"preconditions.{name} is {shown(value)}; write a text")
        texts.append(value)
    orphans = body.get("propagationPolicy") == "Orphan" or body.get("orphanDependents") is True
    uid, version = texts
    return Deletion(dry_run or _dry_run(again), uid, version, orphans)
