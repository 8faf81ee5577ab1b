"""Kubeconfig files: which context counts, and what its cluster and user say.

Read as kubectl reads them: the files of ``KUBECONFIG``, else ``~/.kube/config``; of entries with
the same name the first one wins, and paths are relative to the file that they stand in.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """A setting or a kubeconfig file cannot be used; one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Section:
    """The fields of a cluster or of a user, and the directory that their paths are relative to."""

    fields: Mapping[str, Any]
    directory: Path

    def data_or_file(self, field: str, origin: str) -> bytes | None:
        """The content of ``FIELD-data`` (base64) or of the file that ``FIELD`` names; None where
        neither is set. Raises :class:`ConfigError`."""
        if data := self.fields.get(f"{field}-data"):
            try:
                return base64.b64decode(str(data), validate=True)
            except ValueError:
                message = f"{origin}: {field}-data is not base64 of PEM; correct it"
                raise ConfigError(message) from None
        if path := self.fields.get(field):
            return read_bytes(self.directory / str(path), f"{origin}: {field}")
        return None


_NOTHING = Section({}, Path())
_UNSUPPORTED = ("username", "auth-provider", "as")
"""Fields of a user without which it would be somebody else who asks."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The authorities whose certificates are accepted, and the certificate shown to a server."""

    ca: str | None = None
    """Certificates that may sign the server's, PEM; None = those of the system."""
    verify: bool = True
    certificate: tuple[bytes, bytes] | None = None
    """Client certificate and its key, PEM."""

    def tls(self, origin: str) -> ssl.SSLContext:
        """Raises :class:`ConfigError`, which names ``origin``."""
        try:
            context = ssl.create_default_context(cadata=self.ca)
        except ssl.SSLError as error:
            message = f"{origin}: the certificate authority is not PEM: {error.reason}"
            raise ConfigError(f"{message}; correct it") from None
        # A certificate that is believed may be the server's own, as for every client in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.certificate is not None:
            try:
                _load_chain(context, *self.certificate)
            except ssl.SSLError as error:
                message = f"{origin}: client-certificate and client-key are no pair in PEM"
                raise ConfigError(f"{message}: {error.reason}; correct the kubeconfig") from None
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _load_chain(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module takes a client's certificate from files alone.
    with tempfile.TemporaryDirectory(prefix="quadrant-") as directory:  # for this user's eyes only
        paths = Path(directory) / "certificate", Path(directory) / "key"
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        tls.load_cert_chain(*paths)


@dataclass(frozen=True, slots=True)
class KubeContext:
    """One context with its cluster and its user."""

    name: str
    cluster: Section
    user: Section
    namespace: str | None

    @property
    def origin(self) -> str:
        """The context as messages name it."""
        return f"context {self.name}"

    def server(self) -> str:
        """The address of its cluster. Raises :class:`ConfigError`, also for a user whom we cannot
        be."""
        url = str(self.cluster.fields.get("server") or "")
        if not url:
            message = f"{self.origin}: its cluster names no server"
            raise ConfigError(f"{message}; set clusters[].cluster.server")
        for field in _UNSUPPORTED:
            if self.user.fields.get(field):
                message = f"{self.origin}: users[].user.{field} is not supported; use a token, a "
                raise ConfigError(message + "client certificate or exec")
        return url

    def trust(self) -> Trust:
        """Raises :class:`ConfigError`."""
        ca = self.cluster.data_or_file("certificate-authority", self.origin)
        certificate = self.user.data_or_file("client-certificate", self.origin)
        key = self.user.data_or_file("client-key", self.origin)
        try:
            text = None if ca is None else ca.decode("ascii")
        except UnicodeDecodeError:
            message = f"{self.origin}: certificate-authority-data is not base64 of PEM; correct it"
            raise ConfigError(message) from None
        return Trust(
            text,
            verify=not self.cluster.fields.get("insecure-skip-tls-verify", False),
            certificate=None if certificate is None or key is None else (certificate, key),
        )


def kubeconfig_paths(environ: Mapping[str, str]) -> list[Path]:
    """The files that count, first one first; those that are absent too."""
    if named := environ.get("KUBECONFIG"):
        return [Path(part) for part in named.split(os.pathsep) if part]
    home = environ.get("HOME")
    return [Path(home) / ".kube" / "config"] if home else []


def context_names(paths: Sequence[Path]) -> list[str]:
    """The names of all contexts. Raises :class:`ConfigError`."""
    return list(_merged(paths)["contexts"])


def read_context(paths: Sequence[Path], name: str | None = None) -> KubeContext | None:
    """The context of this name, else the current one; None if no context is current. Raises
    :class:`ConfigError`."""
    config = _merged(paths)
    name = name or config["current"]
    if not name:
        return None
    context = config["contexts"].get(name)
    if context is None:
        names = ", ".join(config["contexts"]) or "none"
        message = f"context {name} is in no kubeconfig; there are: {names}; see KUBECONFIG"
        raise ConfigError(message)
    return KubeContext(
        name,
        config["clusters"].get(str(context.fields.get("cluster")), _NOTHING),
        config["users"].get(str(context.fields.get("user")), _NOTHING),
        context.fields.get("namespace"),
    )


def _merged(paths: Sequence[Path]) -> dict[str, Any]:
    """Merge the files; of entries with the same name the first one wins, as in kubectl."""
    merged: dict[str, Any] = {"current": "", "clusters": {}, "users": {}, "contexts": {}}
    for path in paths:
        if not path.is_file():
            continue
        config = _parsed(path)
        merged["current"] = merged["current"] or str(config.get("current-context") or "")
        for section, entry in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in config.get(section) or ():
                if isinstance(item, dict) and isinstance(item.get(entry), dict):
                    value = Section(item[entry], path.parent)
                    merged[section].setdefault(str(item.get("name")), value)
    return merged


def _parsed(path: Path) -> dict[str, Any]:
    import yaml  # only here: a command that names its server starts without it

    try:
        value = yaml.load(read_text(path, "the kubeconfig"), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f" line {place.line + 1}" if place else ""
        raise ConfigError(f"{path}{line}: not YAML; correct the kubeconfig or unset it") from None
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{path}: not a kubeconfig; name another file with KUBECONFIG")
    return value or {}


def read_text(path: Path, origin: str) -> str:
    """The content of a file. Raises :class:`ConfigError`, which names ``origin``."""
    try:
        return read_bytes(path, origin).decode()
    except UnicodeDecodeError:
        raise ConfigError(_unreadable(path, origin, "not text")) from None


def read_bytes(path: Path, origin: str) -> bytes:
    """As :func:`read_text`, of a file that may be no text."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(_unreadable(path, origin, error.strerror or "no reason")) from None


def _unreadable(path: Path, origin: str, why: str) -> str:
    return f"{origin}: cannot read {path}: {why}; name a readable file"
