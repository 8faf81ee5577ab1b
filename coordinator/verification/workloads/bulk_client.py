"""A small client of the coordinator's HTTP interface: submit objects, ask for the state.

It waits where the server asks it to (429 and 503 with ``Retry-After``) and asks again where the
connection broke: the next coordinator, where it knows several. That is safe, because the name of an
object is its identity: a list that arrived twice changes nothing the second time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

BASE = "/apis/quadrant.dev/v1alpha1"
NOT_FOUND = 404
SOON = 0.2
"""The longest pause where another coordinator may lead by now."""
WAIT_LIMIT = 5.0
"""The longest pause between two attempts, whatever the server says."""


class ApiError(Exception):
    """The coordinator refused a request, or did not answer in time. For people. ``code``: the HTTP
    status, 0 where there was no answer."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one List."""

    accepted: int
    refused: list[dict[str, Any]]
    """Each says kind, name, field and what to do; see :func:`describe`."""


def describe(refused: dict[str, Any]) -> str:
    """A refused object in one line."""
    message = refused.get("message") or refused.get("reason") or "refused"
    field = refused.get("field")
    name = f"{refused.get('kind', 'object')} {refused.get('name', '<unknown>')}"
    return f"{name}: {field}: {message}" if field else f"{name}: {message}"


class ApiClient:
    """``async with ApiClient(url) as api``. One client may carry several requests at a time."""

    def __init__(
        self, *urls: str, timeout: float = 30.0, patience: float = 120.0, token: str = ""
    ) -> None:
        """``urls``: of the coordinators, of which one leads. ``timeout`` bounds one attempt,
        ``patience`` all attempts of a request together. ``token``: "" where none is asked for."""
        self._identity = {"Authorization": f"Bearer {token}"} if token else {}
        self._urls = [url.rstrip("/") for url in urls]
        self._at = 0
        self._timeout = timeout
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # The JSON is made here; decompression and cookies would only cost.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
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
            self._session = None

    async def submit(self, body: bytes) -> Submitted:
        """Send one JSON List; every object in it is judged alone. Raises :class:`ApiError`."""
        reply = await self._request("POST", f"{BASE}/lists", body)
        return Submitted(int(reply.get("accepted", 0)), list(reply.get("refused", ())))

    async def status(self) -> dict[str, Any]:
        """Counts of jobs, tasks, statements and resources. Raises :class:`ApiError`."""
        return await self._request("GET", f"{BASE}/status", None)

    async def delete(self, path: str) -> bool:
        """Delete the object at this path; False where there is none. Raises :class:`ApiError`."""
        try:
            await self._request("DELETE", path, None)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True

    async def _request(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        give_up = time.monotonic() + self._patience
        pause = 0.05
        while True:
            address_used = self._at
            try:
                answer = await self._attempt(method, path, body)
            except (
                aiohttp.ClientConnectionError,
                aiohttp.ClientPayloadError,
                TimeoutError,
            ) as error:
                why, wait = f"no answer ({type(error).__name__}: {error})", pause
            else:
                if isinstance(answer, dict):
                    return answer
                why, wait = "it is busy", answer
            if time.monotonic() + wait > give_up:
                raise ApiError(f"{method} {self._url}{path}: {why} for {self._patience:g} s")
            if len(self._urls) > 1:  # another may lead by now: look there first, and soon
                wait = min(wait, pause)
                if self._at == address_used:  # else another request has found that out already
                    self._at = (address_used + 1) % len(self._urls)
            await asyncio.sleep(wait)
            pause = min(2 * pause, SOON if len(self._urls) > 1 else 1.0)

    @property
    def _url(self) -> str:
        return self._urls[self._at]

    async def _attempt(self, method: str, path: str, body: bytes | None) -> dict[str, Any] | float:
        """The answer, or how many seconds the server wants us to wait."""
        if self._session is None:
            raise RuntimeError("ApiClient is used outside of its `async with`")
        headers = dict(self._identity)
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = self._url + path
        async with self._session.request(method, url, data=body, headers=headers) as response:
            content = await response.read()
            if response.status in (429, 503):
                return _retry_after(response.headers.get("Retry-After"))
            if response.status >= 400:
                message = f"{method} {url} answered {response.status}: {_said(content)}"
                raise ApiError(message, code=response.status)
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise ApiError(f"{method} {url} answered something that is not JSON: {error}") from None
        if not isinstance(answer, dict):
            raise ApiError(f"{method} {url} answered {type(answer).__name__}, not an object")
        return answer


def _said(content: bytes) -> str:
    """What an error answer says: the message of a Kubernetes Status, or the text as it is."""
    try:
        return str(orjson.loads(content)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return content[:500].decode(errors="replace").strip()


def _retry_after(header: str | None) -> float:
    """Seconds to wait; fractions are allowed, dates are not expected of our server."""
    try:
        seconds = float(header or "")
    except ValueError:
        seconds = 0.5
    return min(max(seconds, 0.01), WAIT_LIMIT)
