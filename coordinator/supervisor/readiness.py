"""Readiness probes: whether a socket accepts connections, or a path returns 200."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

from shared.settings.settings import Settings

ANSWER_SECONDS = 2.0
"""Timeout of a probe."""

_LONGEST_ANSWER = 1 << 16
_QUIET_FROM, _PORTS_TRIED = 20_000, 100
_GIVEN_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST = 32_768
"""Where Linux begins, without other settings."""


async def listens(path: str) -> bool:
    """Whether this unix socket accepts connections."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
            writer.close()
            return True
    return False


def readiness(settings: Settings) -> tuple[list[str], list[str]] | None:
    """Problems that the service at the listen address reports of itself, those that do not make it
    unready included, and its notes; None where nothing of ours answers there."""
    host, port = settings.listen_host, settings.listen_port
    if settings.tls_cert_file is None:
        connection = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    else:
        context = _any_certificate()
        connection = HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=context)
    with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
        connection.request("GET", "/readyz?verbose")
        lines = connection.getresponse().read(_LONGEST_ANSWER).decode(errors="replace").splitlines()
        if any(line.startswith("readyz check") for line in lines):
            problems = [line.removeprefix("[-]") for line in lines if line.startswith("[-]")]
            notes = [line.removeprefix("[+]") for line in lines if line.startswith("[+]")]
            return problems, [note.replace(" ok: ", ": ") for note in notes if " ok: " in note]
    return None


async def answers_well(settings: Settings, port: int, path: str) -> bool:
    """Whether GET of this path, without a token, returns 200. Whose certificate is shown does not
    matter here, as to a kubelet: nothing is sent that is secret, and it need not be for this
    address."""
    host, tls = settings.listen_host, settings.tls_cert_file is not None
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            trust = _any_certificate() if tls else None
            reader, writer = await asyncio.open_connection(host, port, ssl=trust)
            try:
                authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                lines = (f"GET {path} HTTP/1.1", f"Host: {authority}", "Connection: close")
                writer.write("\r\n".join((*lines, "", "")).encode())
                status = await reader.readline()
            finally:
                writer.close()
            return status.split()[1:2] == [b"200"]
    return False


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def quiet_port(host: str) -> int:
    """A port that is free now and that no connection is given meanwhile, for a process that binds
    it in some seconds: below those that the kernel gives out by itself. Raises OSError if there is
    none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_PORTS_TRIED):
        port = _QUIET_FROM + secrets.randbelow(_first_given_out() - _QUIET_FROM)
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((host, port))
            return port
    raise OSError(f"{host}: no free port from {_QUIET_FROM} to {_first_given_out()}")


def _first_given_out() -> int:
    """The first port that the kernel may choose for a connection."""
    try:
        first = int(_GIVEN_OUT.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = _USUAL_FIRST
    return first if first > _QUIET_FROM + _PORTS_TRIED else _USUAL_FIRST
