"""A small synchronous client of a server that speaks Kubernetes' dialect.

Only the standard library and orjson: a command that asks one question must not load for longer
than the answer takes. One connection is kept; a watch has its own. Where the server asks to wait
(429 and 503 with ``Retry-After``), it waits, within a bound. Where it knows several addresses it
asks the next one where nobody listens at one, or who listens there does not lead.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import orjson

from coordinator.cli.client.kubeconfig import ServerAccess
from coordinator.cli.client.service_proxy import (
    FORWARDED,
    is_api_server,
    is_ours,
    why_not_reached,
)
from shared.kubeconfig import ConfigError

JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

LONGEST_PAUSE = 5.0
"""Seconds between two attempts, whatever the server says."""
_NOT_HERE = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_CUT = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class KubeError(Exception):
    """A request failed: what the server said, or that it cannot be reached. For people.

    ``code`` is the HTTP status, 0 where there was no answer; ``reason`` is Kubernetes' word.
    """

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", causes: tuple[str, ...] = ()
    ) -> None:
        super().__init__("\n".join((message, *(f"  {cause}" for cause in causes))))
        self.code = code
        self.reason = reason


class RequestRefused(KubeError):
    """The server answered, and said no: what else was asked for goes on."""


class ConnectionFailed(KubeError):
    """No connection: nothing was sent."""


class _Request(NamedTuple):
    method: str
    target: str
    """A path; once an address is chosen, with the address's root before it, the query behind."""
    body: bytes | None
    headers: dict[str, str]


class KubeClient:
    """``timeout`` bounds one attempt, ``patience`` the waiting for a busy server; seconds."""

    def __init__(
        self,
        access: ServerAccess,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
        verbose: bool = False,
    ) -> None:
        self.access = access
        self._timeout = timeout
        self._patience = patience
        self._verbose = verbose
        self._servers = access.server.split(",")
        self._at = 0
        self._kept: http.client.HTTPConnection | None = None
        self._warned: set[str] = set()
        """Warnings of the server that were shown: each once for all objects of a command."""

    def twin(self) -> KubeClient:
        """Another client of the same server, with a connection of its own."""
        twin = KubeClient(
            self.access, timeout=self._timeout, patience=self._patience, verbose=self._verbose
        )
        twin._warned = self._warned
        return twin

    def at_api_server(self) -> KubeClient:
        """A client of the API server through which this one reaches Quadrant."""
        direct = self.twin()
        direct.access = replace(self.access, service=None, quadrant_token=None)
        return direct

    @property
    def server(self) -> str:
        """The address that is asked now."""
        return self._servers[self._at]

    def _next(self) -> None:
        """Ask the next address from now on."""
        self.close()
        self._at = (self._at + 1) % len(self._servers)

    def asks_an_api_server(self) -> bool:
        """Whether the server is a Kubernetes API server, and not Quadrant. Raises
        :class:`KubeError` where there is no answer."""
        headers = {"Accept": JSON}
        if self.access.user_token:  # some tell strangers nothing
            headers["Authorization"] = f"Bearer {self.access.user_token}"
        request = _Request("GET", self._target("/version", None), None, headers)
        began = time.monotonic()
        answer = self._once(request)
        self._read(answer)
        self._log_request(request, answer.status, began)
        return is_api_server(answer.headers)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # --- requests -----------------------------------------------------------------------------

    def get(
        self, path: str, query: Mapping[str, Any] | None = None, *, accept: str = JSON
    ) -> dict[str, Any]:
        return self.ask("GET", path, query, accept=accept)[1]

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: bytes | None = None,
        content: str = JSON,
        accept: str = JSON,
    ) -> tuple[int, dict[str, Any]]:
        """Code and JSON object of a good answer. Raises :class:`KubeError`."""
        code, data = self._answer(method, path, query, body=body, content=content, accept=accept)
        return code, self._object(data)

    def text(self, path: str) -> str:
        """The body of an answer that is not JSON. Raises :class:`KubeError`."""
        return self._answer("GET", path, None, accept="text/plain")[1].decode(errors="replace")

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        *,
        body: bytes | None = None,
        content: str = JSON,
        accept: str,
    ) -> tuple[int, bytes]:
        headers = {"Accept": accept, **self._who()}
        if body is not None:
            headers["Content-Type"] = content
        give_up = time.monotonic() + self._patience
        while True:
            answer, data = self._elsewhere(_Request(method, path, body, headers), query)
            pause = _pause(answer)
            if pause is None or time.monotonic() + pause > give_up:
                break
            time.sleep(pause)
        if answer.status >= 400:
            raise self._failure(answer, data)
        for text in _warnings(answer):
            if text not in self._warned:
                self._warned.add(text)
                sys.stdout.flush()
                sys.stderr.write(f"Warning: {text}\n")
        return answer.status, data

    def _elsewhere(
        self, request: _Request, query: Mapping[str, Any] | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """An attempt at each address, beginning with the one that answered last, until one takes
        the request; the last answer where none does."""
        busy: tuple[http.client.HTTPResponse, bytes] | None = None
        for addresses_left in reversed(range(len(self._servers))):
            began = time.monotonic()
            try:
                located = request._replace(target=self._target(request.target, query))
                answer = self._once(located)
                data = self._read(answer)
            except ConnectionFailed:
                self._next()
                if not addresses_left and busy is None:
                    raise
                continue
            self._log_request(located, answer.status, began)
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE or len(self._servers) == 1:
                return answer, data
            self._next()
            busy = answer, data
        assert busy is not None
        return busy

    def watch(
        self,
        path: str,
        query: Mapping[str, Any],
        *,
        accept: str = JSON,
        seconds: float = 300.0,
    ) -> Iterator[dict[str, Any]]:
        """Events of one watch, until the server or ``seconds`` end it. Raises :class:`KubeError`.

        An error within the stream is raised with its code (410: begin again with a list).
        """
        parameters = {**query, "watch": "true", "timeoutSeconds": max(1, round(seconds))}
        connection, answer = self._open(path, parameters, accept, seconds + 5.0)
        with contextlib.closing(connection):
            if answer.status >= 400:
                raise self._failure(answer, self._read(answer))
            with contextlib.suppress(TimeoutError, http.client.HTTPException, *_CUT):
                while line := answer.readline():
                    if line.strip():
                        yield self._event(line)

    # --- parts --------------------------------------------------------------------------------

    def _open(
        self, path: str, query: Mapping[str, Any], accept: str, timeout: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A stream of its own, from the first address that has one."""
        headers = {"Accept": accept, **self._who()}
        for addresses_left in reversed(range(len(self._servers))):
            connection = self._connect(timeout)
            try:
                target = self._target(path, query)
                answer = self._send(connection, _Request("GET", target, None, headers))
            except ConnectionFailed:
                if not addresses_left:
                    raise
                self._next()
                continue
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE or not addresses_left:
                return connection, answer
            connection.close()
            self._next()
        raise AssertionError("unreachable")

    def _event(self, line: bytes) -> dict[str, Any]:
        event = self._object(line)
        if event.get("type") == "ERROR":
            status = event.get("object") or {}
            code = int(status.get("code") or 0)
            failure = RequestRefused if code else KubeError
            raise failure(_message(status) or "the watch ended", code=code)
        return event

    def _target(self, path: str, query: Mapping[str, Any] | None) -> str:
        parameters = {k: v for k, v in (query or {}).items() if v not in (None, "")}
        root = urlsplit(self.server).path
        if self.access.service is not None:
            root += self.access.service.root
        return root + path + (f"?{urlencode(parameters)}" if parameters else "")

    def _who(self) -> dict[str, str]:
        access = self.access
        sent = {"Authorization": access.token}
        if access.service is not None:
            sent[FORWARDED] = access.quadrant_token
        return {name: f"Bearer {token}" for name, token in sent.items() if token}

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        url = urlsplit(self.server)
        host, port = url.hostname or "", url.port
        if url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            context = self.access.trust.tls(self.access.origin)
        except ConfigError as error:
            raise KubeError(str(error)) from None
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def _once(self, request: _Request) -> http.client.HTTPResponse:
        """One attempt; a kept connection that the server closed meanwhile is opened anew."""
        if self._kept is not None:
            try:
                self._kept.request(*request)
                return self._kept.getresponse()
            except _CUT:
                self.close()
                # The request may have been carried out before the connection broke: sent again, a
                # POST could create twice.
                if request.method == "POST":
                    raise self._unreachable("the connection broke off") from None
            except OSError as error:
                self.close()
                raise self._unreachable(_why(error)) from None
        self._kept = self._connect(self._timeout)
        return self._send(self._kept, request)

    def _send(
        self, connection: http.client.HTTPConnection, request: _Request
    ) -> http.client.HTTPResponse:
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise ConnectionFailed(str(self._unreachable(_why(error)))) from None
        try:
            connection.request(*request)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(_why(error)) from None

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(_why(error)) from None

    def _object(self, data: bytes) -> dict[str, Any]:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise KubeError(
                f"{self.server} ({self.access.origin}) answered {_start_of(data)}, which is "
                "not a JSON object; name a Quadrant server with --server"
            )
        return value

    def _unreachable(self, why: str) -> KubeError:
        return KubeError(
            f"cannot reach {self.server} ({self.access.origin}): {why}; start a server "
            "with `quadrant up`, or name another with --server or QUADRANT_SERVER"
        )

    def _failure(self, answer: http.client.HTTPResponse, data: bytes) -> RequestRefused:
        code = answer.status
        try:
            status = orjson.loads(data)
        except orjson.JSONDecodeError:
            status = None
        said = _message(status) if isinstance(status, dict) else _start_of(data)
        if (service := self.access.service) is not None and not is_ours(answer.headers):
            return RequestRefused(why_not_reached(service, self.access.origin, code, said))
        if not isinstance(status, dict):
            return RequestRefused(f"{self.server} answered {code}: {said}", code=code)
        message = said or f"{self.server} answered {code}"
        if code == 401:
            said_so = message.partition(";")[0]  # the rest tells who writes HTTP by hand what to do
            message = f"{said_so}; give a token with QUADRANT_TOKEN or QUADRANT_TOKEN_FILE"
        causes = tuple(_causes(status, message))
        # Behind one that a kubeconfig names, Quadrant is looked for before anything else is asked.
        named = not self.access.of_context
        if named and code in _NOT_HERE and is_api_server(answer.headers):
            message += (
                f"; {self.server} ({self.access.origin}) is a Kubernetes API server: "
                "name Quadrant's address with --server or QUADRANT_SERVER"
            )
        return RequestRefused(
            message, code=code, reason=str(status.get("reason") or ""), causes=causes
        )

    def _log_request(self, request: _Request, status: int, began: float) -> None:
        if self._verbose:
            took = 1000 * (time.monotonic() - began)
            url = f"{self.server}{request.target}"
            line = f"{request.method} {url} {status} in {took:.0f} ms\n"
            sys.stderr.write(line)


def _start_of(data: bytes) -> str:
    """Describe an answer that is not a JSON object, in one line."""
    text = " ".join(data[:400].decode(errors="replace").split())
    if text[:1] == "<":
        return "a page for browsers, so it is not a Quadrant server"
    return repr(text[:80])


def _message(status: Mapping[str, Any]) -> str:
    """The message of a Kubernetes Status, or of a problem (RFC 9457)."""
    return str(status.get("message") or status.get("detail") or "")


def _causes(status: Mapping[str, Any], message: str) -> Iterator[str]:
    """A line for each wrong field that the message does not mention."""
    details = status.get("details")
    for cause in (details or {}).get("causes") or () if isinstance(details, dict) else ():
        field, text = str(cause.get("field") or ""), str(cause.get("message") or "")
        if text not in message:
            yield f"{field}: {text}" if field else text


def _warnings(answer: http.client.HTTPResponse) -> Iterator[str]:
    """The texts of an answer's ``Warning`` headers: ``299 - "TEXT"``."""
    for value in answer.headers.get_all("Warning") or ():
        text = value.partition('"')[2].removesuffix('"')
        yield text.replace('\\"', '"').replace("\\\\", "\\")


def _pause(answer: http.client.HTTPResponse) -> float | None:
    """Seconds to wait before the same request; None where it should not be repeated."""
    if answer.status not in (429, 503):
        return None
    try:
        seconds = float(answer.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return min(max(seconds, 0.01), LONGEST_PAUSE)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        return f"its certificate is not trusted ({why}); name its authority by QUADRANT_CA_FILE"
    if isinstance(error, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(error):
        return "it does not speak TLS; write http:// in place of https://"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
