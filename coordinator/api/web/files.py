"""``GET /ui/``: the files of the page, as they lie in the package.

They are read once, and nothing else can be asked for. They hold no figures, so that they need no
token: the page asks for one, and sends it with each request of its own. What the browser may do
with them is closed down to this server (Content-Security-Policy): no script and no style but these
files, no request elsewhere, no frame around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

from coordinator.errors import Problem
from shared.errors import shown

PAGE = "/ui/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Asked for anew each time, and answered with 304: after an upgrade no old script is left.
    "Cache-Control": "no-cache",
}
_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    content_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """The files by their path below the page."""
    return dict(_files_below(files("coordinator.api.web").joinpath("static"), ""))


def _files_below(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files_below(entry, f"{prefix}{entry.name}/")
        elif (content_type := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            body = entry.read_bytes()
            tag = sha256(body).hexdigest()[:32]
            found.append((f"{prefix}{entry.name}", PageFile(body, content_type, tag)))
    return found


def page_routes() -> list[web.RouteDef]:
    by_path = page_files()

    async def show(request: web.Request) -> web.StreamResponse:
        path = request.match_info.get("path") or INDEX
        if (file := by_path.get(path)) is None:
            message = f"the page has no file {shown(path)}; it begins at {PAGE}"
            raise Problem(HTTPStatus.NOT_FOUND, message)
        headers = HEADERS | {"ETag": f'"{file.tag}"'}
        # Not by request.if_none_match: what is no tag there would be an error of the server.
        if f'"{file.tag}"' in request.headers.get("If-None-Match", ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(
            body=file.body, headers=headers, content_type=file.content_type, charset="utf-8"
        )

    return [
        web.get("/", _to_page),
        web.get("/ui", _to_page),
        web.get("/ui/{path:.*}", show),
    ]


async def _to_page(_: web.Request) -> web.StreamResponse:
    return web.Response(status=HTTPStatus.FOUND, headers=HEADERS | {"Location": PAGE})
