"""Where the API server is and as whom we ask: from a kubeconfig, or from within a pod."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from shared.kubeconfig import ConfigError, Section, Trust, read_context, read_text

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_SECONDS = 60.0
"""A token file is read again after this time: the kubelet replaces a pod's token when four fifths
of its hour are over."""
EXEC_SECONDS = 30.0
"""How long a credential program may take."""
EARLY_SECONDS = 60.0
"""A token that expires is replaced so long before."""
AGAIN_SECONDS = 5.0
"""After so long a new token is tried for again where none could be had, and the one before serves
meanwhile."""

log = structlog.get_logger(__name__)


class TokenSource(Protocol):
    async def token(self) -> str:
        """The bearer token to send now; "" for none. Raises ConfigError."""
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    text: str = ""

    async def token(self) -> str:
        return self.text


@dataclass(slots=True)
class MountedToken:
    """A token in a file that somebody replaces."""

    path: Path
    _text: str = ""
    _again: float = float("-inf")
    """When to read it again (time.monotonic)."""

    async def token(self) -> str:
        now = time.monotonic()
        if now >= self._again:
            try:
                self._text = read_text(self.path, "token file").strip()
                self._again = now + REREAD_SECONDS
            except ConfigError as error:
                if not self._text:
                    raise
                _keep_token(error)
                self._again = now + AGAIN_SECONDS
        return self._text


def _keep_token(why: ConfigError) -> None:
    log.warning("No new token for the API server; the one before is sent on", why=str(why))


@dataclass(slots=True)
class TokenProgram:
    """A program that a kubeconfig names (``users[].user.exec``); it prints an ExecCredential."""

    command: list[str]
    environment: dict[str, str]
    api_version: str
    directory: Path
    _text: str = ""
    _until: float = 0.0
    _again: float = 0.0
    """When to run it again, seconds since 1970."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def token(self) -> str:
        async with self._lock:  # one run for all streams that need a token now
            if (now := time.time()) >= self._again:
                try:
                    self._text, self._until = _read_credential(await self._run(), self.command[0])
                    self._again = self._until - EARLY_SECONDS
                except ConfigError as error:
                    if not self._text or now >= self._until:
                        raise
                    _keep_token(error)
                    self._again = now + AGAIN_SECONDS
            return self._text

    async def _run(self) -> bytes:
        name = self.command[0]
        request = {"apiVersion": self.api_version, "kind": "ExecCredential"}
        info = json.dumps(request | {"spec": {"interactive": False}})
        program = str(self.directory / name) if "/" in name else name
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *self.command[1:],
                env=os.environ | self.environment | {"KUBERNETES_EXEC_INFO": info},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            message = f"kubeconfig: cannot run {name}: {error.strerror}; install it"
            raise ConfigError(message) from None
        try:
            async with asyncio.timeout(EXEC_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            message = f"kubeconfig: {name} took more than {EXEC_SECONDS:.0f} s; run it by hand"
            raise ConfigError(message) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if process.returncode:
            message = f"kubeconfig: {name} ended with {process.returncode}; run it by hand"
            raise ConfigError(message)
        return output


def _read_credential(output: bytes, name: str) -> tuple[str, float]:
    """The token, and when it expires (seconds since 1970)."""
    try:
        status = json.loads(output)["status"]
        token, expires = status["token"], status.get("expirationTimestamp")
        until = datetime.fromisoformat(expires).timestamp() if expires else float("inf")
    except (ValueError, KeyError, TypeError):
        message = f"kubeconfig: {name} printed no ExecCredential with status.token; run it by hand"
        raise ConfigError(message) from None
    return str(token), until


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One API server, and how to authenticate to it."""

    url: str
    origin: str
    """Source of its address, for messages."""
    tls: ssl.SSLContext | None
    """None: plain HTTP."""
    tokens: TokenSource = field(default_factory=FixedToken)


def from_kubeconfig(path: Path, context: str | None = None) -> ApiServer:
    """The server of a context of this file, the current one by default. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(f"kubeconfig: cannot read {path}: no such file; name a readable file")
    chosen = read_context([path], context)
    if chosen is None:
        raise ConfigError(f"{path}: no context is current; name one")
    url, origin = chosen.server(), chosen.origin
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{origin} is {url!r}; write http://HOST:PORT or https://HOST:PORT")
    tls = chosen.trust().tls(origin) if url.startswith("https://") else None
    return ApiServer(url.rstrip("/"), origin, tls, token_source(chosen.user, origin))


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ApiServer:
    """The server of the cluster that this pod runs in. Raises ConfigError."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        message = "in cluster: KUBERNETES_SERVICE_HOST is not set; run in a pod, or name a "
        raise ConfigError(message + "kubeconfig")
    ca = read_text(directory / "ca.crt", "in cluster")
    tls = Trust(ca).tls("in cluster")
    address = f"[{host}]" if ":" in host else host
    return ApiServer(
        f"https://{address}:{port}", "in cluster", tls, MountedToken(directory / "token")
    )


def token_source(user: Section, origin: str) -> TokenSource:
    """The bearer token of a kubeconfig's user. Raises ConfigError."""
    fields = user.fields
    if path := fields.get("tokenFile"):
        return MountedToken(user.directory / str(path))
    if program := fields.get("exec"):
        return _program(program, user.directory, origin)
    return FixedToken(str(fields.get("token") or ""))


def _program(program: Any, directory: Path, origin: str) -> TokenProgram:
    try:
        variables = {str(v["name"]): str(v["value"]) for v in program.get("env") or ()}
        command = [str(program["command"]), *map(str, program.get("args") or ())]
        version = str(program["apiVersion"])
    except (KeyError, TypeError, AttributeError):
        message = f"{origin}: users[].user.exec has no command or apiVersion; set both"
        raise ConfigError(message) from None
    return TokenProgram(command, variables, version, directory)
