"""An authority of our own, and the certificates that it issues."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from laboratory.local_kubernetes.errors import LocalClusterFailed

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: str | Path) -> None:
    """Run it with these arguments. Raises LocalClusterFailed."""
    command = which("openssl")
    if command is None:
        raise LocalClusterFailed("no `openssl` on PATH: install it, certificates are made by it")
    process = subprocess.run(
        [command, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    if process.returncode != 0:
        raise LocalClusterFailed(f"openssl {arguments[0]} failed: {process.stderr.strip()}")


class Authority:
    """Makes certificates below its own, in files of a directory."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self.certificate, self._key = path / f"{name}.pem", path / f"{name}.key"
        subject = f"/CN={name}"
        options = ("-x509", "-out", self.certificate, "-keyout", self._key, "-days", "2")
        openssl("req", *_KEY, *options, "-subj", subject)

    def issue(
        self, name: str, host: str = "localhost", *, groups: Sequence[str] = (), address: str = ""
    ) -> tuple[Path, Path]:
        """(certificate, key) for a name; ``groups`` are those that Kubernetes reads of a user's
        certificate, ``address`` is an IP that a server is reached by beside its host's name."""
        base = self._path / f"{self._name}-{name}"
        request_path, key, certificate_path = (
            base.with_suffix(s) for s in (".csr", ".key", ".pem")
        )
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        openssl("req", *_KEY, "-out", request_path, "-keyout", key, "-subj", subject)
        extensions = base.with_suffix(".ext")
        addresses = f",IP:{address}" if address else ""
        extensions.write_text(f"subjectAltName=DNS:{host}{addresses}\n")
        signed = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "2")
        openssl(
            "x509",
            "-req",
            "-in",
            request_path,
            *signed,
            "-out",
            certificate_path,
            "-extfile",
            extensions,
        )
        return certificate_path, key
