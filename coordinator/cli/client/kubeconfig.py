"""Where the server is and who asks: from flags, the environment and kubeconfig files.

Order: ``--server``; ``--context``; ``QUADRANT_SERVER``; the current context of the kubeconfig
(``KUBECONFIG``, else ``~/.kube/config``); the address ``quadrant up`` listens on where nothing else
was said. A token of ``QUADRANT_TOKEN`` or ``QUADRANT_TOKEN_FILE`` counts before a context's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from coordinator.cli.client.service_proxy import ProxiedService
from shared.kubeconfig import (
    ConfigError,
    Section,
    Trust,
    context_names,
    kubeconfig_paths,
    read_context,
    read_text,
)

DEFAULT_SERVER = "http://127.0.0.1:8080"
NAME = "quadrant"
"""Name of the cluster, the user and the context in the files that we write."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach one server."""

    server: str
    """Several addresses of one server, of whose coordinators one leads, stand with commas between
    them."""
    origin: str
    """Source of the server's address, for messages: ``--server``, ``context prod``, ..."""
    token: str | None = None
    namespace: str | None = None
    """The context's default namespace."""
    trust: Trust = field(default_factory=Trust)
    of_context: bool = False
    """Whether a kubeconfig named the server: then it may be a Kubernetes API server."""
    user_token: str | None = None
    """The token of the context's user, whatever ``token`` is."""
    service: ProxiedService | None = None
    """Where Quadrant is behind the server, if that is a Kubernetes API server."""
    quadrant_token: str | None = None
    """The token that Quadrant gets there."""


def find_access(
    *, server: str | None = None, context: str | None = None, environ: Mapping[str, str]
) -> ServerAccess:
    """Raises :class:`ConfigError`."""
    token = _token(environ)
    named = server or ("" if context else environ.get("QUADRANT_SERVER", ""))
    if named:
        origin = "--server" if server else "QUADRANT_SERVER"
        return ServerAccess(_addresses(named, origin), origin, token, trust=Trust(_ca(environ)))
    access = _of_kubeconfig(context, environ)
    if access is None:
        return ServerAccess(DEFAULT_SERVER, "the default", token)
    return access if token is None else replace(access, token=token, quadrant_token=token)


def _ca(environ: Mapping[str, str]) -> str | None:
    path = environ.get("QUADRANT_CA_FILE")
    return read_text(Path(path), "QUADRANT_CA_FILE") if path else None


def _token(environ: Mapping[str, str]) -> str | None:
    if token := environ.get("QUADRANT_TOKEN"):
        return _one_word(token, "QUADRANT_TOKEN")
    if path := environ.get("QUADRANT_TOKEN_FILE"):
        return _one_word(read_text(Path(path), "QUADRANT_TOKEN_FILE"), "QUADRANT_TOKEN_FILE")
    return None


def _one_word(text: str, origin: str) -> str:
    """Check a token for use in a header; return it stripped. The error does not echo the text,
    because a mistyped token may be most of a real one."""
    token = text.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(f"{origin}: not a token; it is one word, alone, as quadrant token shows")
    return token


def _addresses(text: str, origin: str) -> str:
    return ",".join(_address(address.strip(" "), origin) for address in text.split(","))


def _address(text: str, origin: str) -> str:
    """A bare HOST:PORT is HTTP."""
    address = text if "://" in text else f"http://{text}"
    try:
        url = urlsplit(address)
        good = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:  # brackets, or a port beyond all ports
        good = False
    if not good or not (address.isascii() and address.isprintable() and " " not in address):
        raise ConfigError(f"{origin} is {text!r}; write http://HOST:PORT or https://HOST:PORT")
    return address.rstrip("/")


# --- kubeconfig -------------------------------------------------------------------------------


def contexts(environ: Mapping[str, str]) -> list[str]:
    """The names of all contexts. Raises :class:`ConfigError`."""
    return context_names(kubeconfig_paths(environ))


def _of_kubeconfig(context: str | None, environ: Mapping[str, str]) -> ServerAccess | None:
    """The server of this context, or of the current one; None if there is neither. Raises
    :class:`ConfigError`."""
    chosen = read_context(kubeconfig_paths(environ), context)
    if chosen is None:
        return None
    origin = chosen.origin
    return ServerAccess(
        _address(chosen.server(), origin),
        origin,
        token=(token := _user_token(chosen.user, origin)),
        namespace=chosen.namespace,
        trust=chosen.trust(),
        of_context=True,
        user_token=token,
    )


def _user_token(user: Section, origin: str) -> str | None:
    if path := user.fields.get("tokenFile"):
        text = read_text(user.directory / str(path), f"{origin}: tokenFile")
        return _one_word(text, f"{origin}: tokenFile")
    if user.fields.get("exec"):
        return _printed_token(user, origin)
    token = user.fields.get("token")
    return _one_word(str(token), f"{origin}: token") if token else None


def _printed_token(user: Section, origin: str) -> str | None:
    """Token that a credential program prints."""
    import asyncio  # only here: it takes as long to import as everything else together

    from coordinator.cluster.kubernetes.api.credentials import token_source

    return asyncio.run(token_source(user, origin).token()) or None


# --- written by `up` --------------------------------------------------------------------------


def write_kubeconfig(
    path: Path, *, server: str, token_file: Path | None = None, ca_file: Path | None = None
) -> Path:
    """A kubeconfig with one context, for this user's eyes only. Returns its path."""
    trust = "" if ca_file is None else f'    certificate-authority: "{ca_file}"\n'
    if token_file is not None:
        user = f'{{tokenFile: "{token_file}"}}'
    else:
        # kubectl asks for a user's name where it speaks TLS and has nothing to show.
        user = "{}" if ca_file is None else "{token: nobody-asks-for-one}"
    text = (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"current-context: {NAME}\n"
        f"clusters:\n- name: {NAME}\n  cluster:\n    server: {server}\n{trust}"
        f"contexts:\n- name: {NAME}\n"
        f"  context: {{cluster: {NAME}, user: {NAME}, namespace: default}}\n"
        f"users:\n- name: {NAME}\n  user: {user}\n"
    )
    path.unlink(missing_ok=True)  # so that the mode below counts, whatever was there
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path
