"""The listener's certificate: files that are followed, so that a renewed one needs no restart.

A change counts once two looks found the same content, so that neither a file half written nor a
certificate whose key comes a moment later is used. A pair that cannot be used changes nothing but
health: the one before goes on being shown.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import structlog

from coordinator.api.http.health import HealthCheck
from shared.settings.settings import PREFIX, Settings, SettingsError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
_NAMES = f"{PREFIX}TLS_CERT_FILE, {PREFIX}TLS_KEY_FILE"


class ServingCertificate:
    """``context`` is for the next connection; those that are open keep theirs. ``error``: why the
    files' current content is not in use; "" if it is."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load both. Raises SettingsError."""
        self._certificate, self._key = certificate, key
        self.error = ""
        try:
            self._content: tuple[bytes, bytes] | None = self._read()
            self.context = self._loaded()
        except _Unusable as error:
            raise SettingsError(f"{_NAMES}: {error}") from None
        self._settled = True

    def look(self) -> bool:
        """Read both files; returns whether another certificate is shown from now on. May block."""
        try:
            content = self._read()
        except _Unusable as error:
            content = None
            self._refuse(str(error))
        if content != self._content:
            self._content, self._settled = content, False
            return False
        if self._settled or content is None:
            return False
        self._settled = True
        try:
            self.context = self._loaded()
        except _Unusable as error:
            self._refuse(str(error))
            return False
        self.error = ""
        log.info("Took up the renewed certificate", file=str(self._certificate))
        return True

    async def follow_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def check(self) -> HealthCheck:
        def said() -> str:
            return f"an older certificate is shown: {self.error}" if self.error else ""

        return HealthCheck("certificate", said, needed=False)

    def _refuse(self, error: str) -> None:
        if error != self.error:
            log.error("Kept the old certificate: the files cannot be used", why=error)
        self.error = error

    def _read(self) -> tuple[bytes, bytes]:
        return _bytes(self._certificate), _bytes(self._key)

    def _loaded(self) -> ssl.SSLContext:
        """A new context and not the old one changed: a key that does not belong to the certificate
        would leave that with half a pair."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A password, so that an encrypted key is an error and no question on the terminal.
            context.load_cert_chain(self._certificate, self._key, password="")
        except ssl.SSLError as error:
            raise _Unusable(
                f"{self._certificate} and {self._key} are no certificate and its key "
                f"({error.reason or 'not PEM'}); write both in PEM, the key not encrypted"
            ) from None
        except OSError as error:
            raise _Unusable(f"cannot read {error.filename}: {error.strerror}") from None
        return context


class _Unusable(Exception):
    """The files cannot be used; the message has the remedy."""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _Unusable(f"cannot read {path}: {error.strerror}; name a readable file") from None


def serving_certificate(settings: Settings) -> ServingCertificate | None:
    """Certificate that the settings name; None = plain HTTP. Raises SettingsError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return ServingCertificate(settings.tls_cert_file, settings.tls_key_file)
