"""Identities at the API server: kubeconfig files with certificates or tokens in them."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with a certificate (name and groups stand in it) or with a bearer token."""

    server: str
    authority: Path
    """The certificate that signed the server's."""
    kubeconfig: Path
    certificate: tuple[Path, Path] | None = None
    token: str | None = None

    def write(self) -> Identity:
        """Write the kubeconfig file. It stands for itself: no other file is named in it."""
        user: dict[str, Any] = {"token": self.token} if self.token is not None else {}
        if self.certificate is not None:
            certificate, key = self.certificate
            user |= {"client-certificate-data": _data(certificate), "client-key-data": _data(key)}
        cluster = {"server": self.server, "certificate-authority-data": _data(self.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": "local", "user": user}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
            "current-context": "local",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(content))
        return self

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.certificate is not None:
            context.load_cert_chain(*self.certificate)
        return context

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
