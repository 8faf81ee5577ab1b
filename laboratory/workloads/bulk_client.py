"""A small client of the coordinator's HTTP API: submits objects and reads the status.

It waits as the server says (429 and 503 with ``Retry-After``) and retries broken connections, with
the next coordinator if it knows several. Retrying is safe because the name of an object is its
identity: a list that arrives twice changes nothing the second time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import orjson

BASE = "/apis/quadrant.dev/v1alpha1"
NOT_FOUND = 404
SOON = 0.2
"""Maximum pause if another coordinator may lead by now."""
WAIT_LIMIT = 5.0
"""Maximum pause between attempts, whatever the server says."""


class BulkError(Exception):
    """The coordinator refused a request, or did not answer in time. ``code``: the HTTP status, 0
    without an answer."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of submitting one List."""

    accepted: int
    refused: list[dict[str, Any]]
    """One entry per refused object, with kind, name, field and remedy; see :func:`describe`."""


def describe(refused: dict[str, Any]) -> str:
    """A refused object in one line."""
    message = refused.get("message") or refused.get("reason") or "refused"
    field = refused.get("field")
    name = f"{refused.get('kind', 'object')} {refused.get('name', '<unknown>')}"
    return f"{name}: {field}: {message}" if field else f"{name}: {message}"


class BulkClient:
    """``async with ApiClient(url) as api``. One client may carry several requests at a time."""

    def __init__(
        self, *urls: str, timeout: float = 30.0, patience: float = 120.0, token: str = ""
    ) -> None:
        """``urls``: of the coordinators, one of which leads. ``timeout``: seconds per attempt;
        ``patience``: seconds for all attempts of a request. ``token``: "" without authentication.
        """
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

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def submit(self, body: bytes) -> Submitted:
        """Send one JSON List; every object in it is judged alone. Raises :class:`BulkError`."""
        reply = await self._request("POST", f"{BASE}/lists", body)
        return Submitted(int(reply.get("accepted", 0)), list(reply.get("refused", ())))

    async def status(self) -> dict[str, Any]:
        """Counts of jobs, tasks, statements and resources. Raises :class:`BulkError`."""
        return await self._request("GET", f"{BASE}/status", None)

    async def get(self, path: str) -> dict[str, Any]:
        """One object, by its path below the server's root."""
        return await self._request("GET", path, None)

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        """Send an object to this path. Raises :class:`BulkError`."""
        return await self._request("POST", path, body)

    async def delete(self, path: str) -> bool:
        """Delete the object at this path; False where there is none. Raises :class:`BulkError`."""
        try:
            await self._request("DELETE", path, None)
        except BulkError as error:
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
                raise BulkError(f"{method} {self._url}{path}: {why} for {self._patience:g} s")
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
        """The answer, or the seconds to wait before a retry."""
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
                raise BulkError(message, code=response.status)
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise BulkError(
                f"{method} {url} answered something that is not JSON: {error}"
            ) from None
        if not isinstance(answer, dict):
            raise BulkError(f"{method} {url} answered {type(answer).__name__}, not an object")
        return answer


def _said(content: bytes) -> str:
    """The message in an error answer: that of a Kubernetes Status, or the text as it is."""
    try:
        return str(orjson.loads(content)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return content[:500].decode(errors="replace").strip()


def _retry_after(header: str | None) -> float:
    """Seconds to wait. Fractions are allowed; dates are not, as this server sends none."""
    try:
        seconds = float(header or "")
    except ValueError:
        seconds = 0.5
    return min(max(seconds, 0.01), WAIT_LIMIT)
