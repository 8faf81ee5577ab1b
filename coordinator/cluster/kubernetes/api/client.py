"""Reading from an API server: lists in pages, and watches. Nothing here writes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from coordinator.cluster.kubernetes.api.credentials import ApiServer
from coordinator.cluster.kubernetes.api.objects import (
    ListPage,
    WatchLine,
    line_of,
    page_of,
    status_of,
)
from shared.kubeconfig import ConfigError

PAGE = 5000
"""Objects of one page: 20,000 pods took as long whole as in pages of 5,000, and a page bounds what
is held at once."""
ANSWER_SECONDS = 30.0
"""How long one answer may take."""
SILENCE_SECONDS = 90.0
"""A watch that says nothing for longer is taken for dead: the server sends a bookmark about once a
minute."""
CONNECT_SECONDS = 10.0
WATCH_SECONDS = 290
"""How long we ask the server to keep a watch open."""
_LINE_LIMIT = 64 << 20
"""Bytes of one event; etcd keeps objects of at most 1.5 MB."""


class ApiError(Exception):
    """The server refused, or could not be asked. ``code`` 0: there was no answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Expired(ApiError):
    """The version is too old for the server (410): everything must be listed again."""


class KindMissing(ApiError):
    """The server does not have this kind (404)."""


class ApiReader:
    """One session to one server."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self.server.tls or True, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": "quadrant", "Accept": "application/json"},
            read_bufsize=1 << 21,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of one answer. Raises ApiError."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._answer(path, params or {}, timeout) as answer:
                body = await answer.read()
                _check(answer.status, body, path)
                return body
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"{path}: {_words(error)}") from error

    async def pages(self, path: str) -> AsyncIterator[ListPage]:
        """A consistent list, page by page; each page has the version that a watch goes on from.
        Raises ApiError."""
        token = ""
        while True:
            params = {"limit": str(PAGE)} | ({"continue": token} if token else {})
            page = page_of(await self.get(path, params))
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def watch(self, path: str, version: str) -> AsyncIterator[list[WatchLine]]:
        """Events after ``version``, in the parts in which they arrive. Ends when the server ends
        the watch, which is normal. Raises ApiError."""
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        try:
            async with self._answer(path, params, timeout) as answer:
                if answer.status != HTTPStatus.OK:
                    _check(answer.status, await answer.read(), path)
                async for lines in _lines(answer.content):
                    _raise_error(lines, path)
                    yield lines
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"{path}: {_words(error)}") from error

    @contextlib.asynccontextmanager
    async def _answer(
        self, path: str, params: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The connection of an answer that is not read to its end is aborted: one that is closed
        waits for the server's goodbye of TLS, and is open still when the loop ends."""
        assert self._session is not None, "used outside of its context"
        url, headers = f"{self.server.url}{path}", await self._headers()
        async with self._session.get(
            url, params=params, timeout=timeout, headers=headers
        ) as answer:
            try:
                yield answer
            finally:
                unread = answer.connection
                if unread is not None and unread.transport is not None:
                    unread.transport.abort()

    async def _headers(self) -> dict[str, str]:
        try:
            token = await self.server.tokens.token()
        except ConfigError as error:  # whoever runs the cluster mends it while we go on
            raise ApiError(0, str(error)) from None
        return {"Authorization": f"Bearer {token}"} if token else {}


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[WatchLine]]:
    """The whole lines of each part that arrives; a line cut off by the end of the stream is not an
    event."""
    rest = bytearray()
    async for part in content.iter_any():
        rest += part
        end = rest.rfind(b"\n") + 1
        if not end:
            if len(rest) > _LINE_LIMIT:
                raise ApiError(0, f"an event of more than {_LINE_LIMIT >> 20} MiB")
            continue
        whole, rest = bytes(rest[:end]), rest[end:]
        try:
            yield [line_of(line) for line in whole.split(b"\n") if line]
        except msgspec.DecodeError as error:
            raise ApiError(0, f"an event that is not JSON: {error}") from error


def _raise_error(lines: list[WatchLine], path: str) -> None:
    """An expired watch is answered with 200 and an event that says 410."""
    for line in lines:
        if line.type == "ERROR":
            status = status_of(line.object, 0)
            kind = Expired if status.code == HTTPStatus.GONE else ApiError
            raise kind(status.code, f"{path}: {status.message}")


def _check(code: int, body: bytes, path: str) -> None:
    if code < HTTPStatus.BAD_REQUEST:
        return
    message = f"{path}: {code} {status_of(body, code).message}"
    match code:
        case HTTPStatus.GONE:
            raise Expired(code, message)
        case HTTPStatus.NOT_FOUND:
            raise KindMissing(code, message)
        case _:
            raise ApiError(code, message)
