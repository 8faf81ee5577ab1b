"""Where the server is and who asks: from flags, the environment and kubeconfig files.

Order: ``--server``; ``--context``; ``QUADRANT_SERVER``; the current context of the kubeconfig
(``KUBECONFIG``, else ``~/.kube/config``); the address ``quadrant up`` listens on where nothing else
was said. A token of ``QUADRANT_TOKEN`` or ``QUADRANT_TOKEN_FILE`` counts before a context's own.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEFAULT_SERVER = "http://127.0.0.1:8080"
NAME = "quadrant"
"""Of the cluster, the user and the context in the files that we write."""


class ConfigError(Exception):
    """A setting or a kubeconfig file cannot be used; one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach one server."""

    server: str
    """Several addresses of one server, of whose coordinators one leads, stand with commas between
    them."""
    origin: str
    """Who named the server, for messages: ``--server``, ``context prod``, ..."""
    token: str | None = None
    namespace: str | None = None
    """The context's default namespace."""
    ca: str | None = None
    """Certificates that may sign the server's, PEM; None = those of the system."""
    verify: bool = True


def find_access(
    *, server: str | None = None, context: str | None = None, environ: Mapping[str, str]
) -> ServerAccess:
    """Raises :class:`ConfigError`."""
    token = _token(environ)
    named = server or ("" if context else environ.get("QUADRANT_SERVER", ""))
    if named:
        origin = "--server" if server else "QUADRANT_SERVER"
        return ServerAccess(_addresses(named, origin), origin, token)
    access = _of_kubeconfig(context, environ)
    if access is None:
        return ServerAccess(DEFAULT_SERVER, "the default", token)
    return access if token is None else replace(access, token=token)


def _token(environ: Mapping[str, str]) -> str | None:
    if token := environ.get("QUADRANT_TOKEN"):
        return _one_word(token, "QUADRANT_TOKEN")
    if path := environ.get("QUADRANT_TOKEN_FILE"):
        return _one_word(_read(Path(path), "QUADRANT_TOKEN_FILE"), "QUADRANT_TOKEN_FILE")
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


def kubeconfig_paths(environ: Mapping[str, str]) -> list[Path]:
    """The files that count, first one first; those that are absent too."""
    if named := environ.get("KUBECONFIG"):
        return [Path(part) for part in named.split(os.pathsep) if part]
    home = environ.get("HOME")
    return [Path(home) / ".kube" / "config"] if home else []


def contexts(environ: Mapping[str, str]) -> list[str]:
    """The names of all contexts. Raises :class:`ConfigError`."""
    return list(_merged(environ)["contexts"])


def _merged(environ: Mapping[str, str]) -> dict[str, Any]:
    """Merge the files; of entries with the same name the first one wins, as in kubectl."""
    merged: dict[str, Any] = {"current": "", "clusters": {}, "users": {}, "contexts": {}}
    for path in kubeconfig_paths(environ):
        if not path.is_file():
            continue
        config = _parsed(path)
        merged["current"] = merged["current"] or str(config.get("current-context") or "")
        for section, entry in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in config.get(section) or ():
                if isinstance(item, dict) and isinstance(item.get(entry), dict):
                    value = {**item[entry], "": path.parent}
                    merged[section].setdefault(str(item.get("name")), value)
    return merged


def _parsed(path: Path) -> dict[str, Any]:
    import yaml

    try:
        value = yaml.load(_read(path, "the kubeconfig"), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f" line {place.line + 1}" if place else ""
        raise ConfigError(f"{path}{line}: not YAML; mend the kubeconfig or unset it") from None
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{path}: not a kubeconfig; name another file with KUBECONFIG")
    return value or {}


def _of_kubeconfig(context: str | None, environ: Mapping[str, str]) -> ServerAccess | None:
    """The server of this context, or of the current one; None if there is neither. Raises
    :class:`ConfigError`."""
    config = _merged(environ)
    name = context or config["current"]
    if not name:
        return None
    origin = f"context {name}"
    chosen = config["contexts"].get(name)
    if chosen is None:
        names = ", ".join(config["contexts"]) or "none"
        raise ConfigError(f"{origin} is in no kubeconfig; there are: {names}; see KUBECONFIG")
    cluster = config["clusters"].get(str(chosen.get("cluster")), {})
    user = config["users"].get(str(chosen.get("user")), {})
    if not cluster.get("server"):
        raise ConfigError(f"{origin}: its cluster names no server; set clusters[].cluster.server")
    return ServerAccess(
        _address(str(cluster["server"]), origin),
        origin,
        token=_user_token(user, origin),
        namespace=chosen.get("namespace"),
        ca=_certificates(cluster, origin),
        verify=not cluster.get("insecure-skip-tls-verify", False),
    )


def _user_token(user: Mapping[str, Any], origin: str) -> str | None:
    if user.get("tokenFile"):
        text = _read(user[""] / str(user["tokenFile"]), f"{origin}: tokenFile")
        return _one_word(text, f"{origin}: tokenFile")
    return _one_word(str(user["token"]), f"{origin}: token") if user.get("token") else None


def _certificates(cluster: Mapping[str, Any], origin: str) -> str | None:
    if data := cluster.get("certificate-authority-data"):
        try:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        except ValueError:
            field = "certificate-authority-data"
            raise ConfigError(f"{origin}: {field} is not base64 of PEM; mend it") from None
    if path := cluster.get("certificate-authority"):
        return _read(cluster[""] / str(path), f"{origin}: certificate-authority")
    return None


def _read(path: Path, origin: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError(f"{origin}: cannot read {path}: {why}; name a readable file") from None


# --- written by `up` --------------------------------------------------------------------------


def write_kubeconfig(path: Path, *, server: str, token_file: Path | None = None) -> Path:
    """A kubeconfig with one context, for this user's eyes only. Returns its path."""
    user = "{}" if token_file is None else f'{{tokenFile: "{token_file}"}}'
    text = (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"current-context: {NAME}\n"
        f"clusters:\n- name: {NAME}\n  cluster:\n    server: {server}\n"
        f"contexts:\n- name: {NAME}\n"
        f"  context: {{cluster: {NAME}, user: {NAME}, namespace: default}}\n"
        f"users:\n- name: {NAME}\n  user: {user}\n"
    )
    path.unlink(missing_ok=True)  # so that the mode below counts, whatever was there
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path
