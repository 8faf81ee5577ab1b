"""The files of the page: what the browser may do with them, and that they need nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from coordinator.api.auth.gate import Gate
from coordinator.api.auth.middleware import middleware
from coordinator.api.auth.roles import FRAMES, needed
from coordinator.api.auth.token_file import TokenFile
from coordinator.api.http.failures import failures
from coordinator.api.web.files import page_files, page_routes
from coordinator.intake.principal import TokenRole
from tests.coordinator.api.auth.files import entry, write_tokens

FILES = page_files()
SCRIPTS = sorted(path for path in FILES if path.endswith(".js"))


@pytest.fixture
async def client(tmp_path) -> AsyncIterator[TestClient[web.Request, web.Application]]:  # type: ignore[no-untyped-def]
    """A server that asks for tokens."""
    tokens = TokenFile(write_tokens(tmp_path / "tokens", entry("t", "view", "qdt_" + "a" * 40)))
    app = web.Application(middlewares=[failures, middleware(Gate(tokens))])
    app.add_routes(page_routes())
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_the_page_needs_no_token_and_allows_nothing_but_its_own_files(
    client: TestClient[web.Request, web.Application],
) -> None:
    async with client.get("/ui/") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/html"
        policy = dict(
            part.strip().split(" ", 1)
            for part in answer.headers["Content-Security-Policy"].split(";")
        )
        assert policy.pop("default-src") == "'none'"
        assert set(policy.values()) == {"'self'", "'none'"}
        assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        tag = answer.headers["ETag"]
    async with client.get("/ui/", headers={"If-None-Match": tag}) as again:
        assert again.status == 304
    async with client.get("/", allow_redirects=False) as root:
        assert (root.status, root.headers["Location"]) == (302, "/ui/")
    for path in ("/ui/none.js", "/ui/../files.py", "/ui/%2e%2e/files.py", "/ui/views"):
        async with client.get(path) as answer:
            assert answer.status in (401, 404), path
            assert "import" not in await answer.text()
    assert needed("GET", "/ui/{path:.*}") is None
    assert needed("GET", FRAMES) is TokenRole.VIEW


async def test_every_file_is_served_as_what_it_is(
    client: TestClient[web.Request, web.Application],
) -> None:
    for path, file in FILES.items():
        async with client.get(f"/ui/{path}") as answer:
            assert answer.status == 200
            assert answer.content_type == file.content_type
            assert await answer.read() == file.body


def test_nothing_is_inline_or_from_elsewhere() -> None:
    index = FILES["index.html"].body.decode()
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", index) == []
    for path, file in FILES.items():
        addresses = re.findall(r"https?://[^\"'\s)]+", file.body.decode())
        assert addresses == [] or (
            path == "icon.svg" and addresses == ["http://www.w3.org/2000/svg"]
        )


@pytest.mark.parametrize("path", SCRIPTS)
def test_scripts_import_files_that_are_there_and_parse_no_markup(path: str) -> None:
    text = FILES[path].body.decode()
    folder = path.rpartition("/")[0]
    for name in re.findall(r'from "([^"]+)"', text):
        steps = [*filter(None, folder.split("/"))]
        for step in name.split("/"):
            if step == "..":
                steps.pop()
            elif step != ".":
                steps.append(step)
        assert "/".join(steps) in FILES, (path, name)
    # What users name is text: nothing here makes elements out of text.
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert len(text.splitlines()) < 600
