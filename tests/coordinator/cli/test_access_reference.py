"""The table of what requests take has every route of a service that follows a cluster."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from coordinator.api.auth.access import PathAccess, ResourceAccess, access_of
from coordinator.cli.access_reference import REQUESTS
from coordinator.intake.documents.kinds import KINDS
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.end_to_end.one_process.harness import running

OBJECTS = {(kind.group, kind.plural) for kind in KINDS}
READS = ("GET", "HEAD", "OPTIONS")


async def routes(server: EmbeddedServer, path: Path) -> list[tuple[str, str]]:
    flush(server)
    async with running(server.url, path) as quadrant:
        serving = quadrant.service._serving
        assert serving is not None
        app: web.Application = serving.app()
        return [
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.resource is not None and route.method not in ("HEAD", "*")
        ]


def _kind_of_request(method: str, route: str) -> tuple[str, ...] | None:
    """The row that tells of a request; None: it is not for the table."""
    match access_of(method, route, {}):
        case None:
            return ("open",)
        case PathAccess(verb, path) if path.startswith(("/api/", "/apis/", "/openapi/v3")):
            return (verb, "discovery")
        case PathAccess(verb, path):
            return (verb, path)
        case ResourceAccess() as access if (access.group, access.resource) in OBJECTS:
            reads = method in READS or access.subresource in ("explain", "trace")
            return (access.verb, access.subresource) if reads else None
        case ResourceAccess() as access:
            return (access.verb, access.full_resource)


async def test_no_route_is_missing(embedded_server: EmbeddedServer, short_dir: Path) -> None:
    rows = {_kind_of_request(method, address.partition("?")[0]) for method, address in REQUESTS}
    rows |= {("get", "discovery")}  # what /api and /apis lead to
    # Lists of objects are written where the objects live, and what a user may do is asked there.
    rows |= {("create", "lists"), ("create", "selfsubjectaccessreviews")}
    rows |= {("create", "selfsubjectrulesreviews")}
    rights = {
        kind
        for method, route in await routes(embedded_server, short_dir)
        if (kind := _kind_of_request(method, route)) is not None
    }
    assert rights - rows == set()
    # The shadow's own route is there in a shadow alone.
    assert rows - rights == {("list", "shadow")}
