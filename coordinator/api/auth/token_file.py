"""The token file of a running server: read once per second, and reloaded when it changed.

A change is used once two reads in a row had the same content, so that a half-written file is not
used. A file with errors changes nothing but health: the tokens loaded before stay valid.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from coordinator.api.auth.tokens import TokenBook, TokenError, parse_tokens
from coordinator.intake.principal import Principal
from shared.settings.settings import PREFIX, SettingsError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
_LIMIT = 1 << 20
"""Maximum bytes; a Secret cannot hold more."""


class TokenFile:
    """``error``: why the file's current content is not in use; "" if it is."""

    def __init__(self, path: Path) -> None:
        """Load the file. Raises SettingsError if it has errors, since then nobody could log in."""
        self.path = path
        self.error = ""
        try:
            text = _read(path)
            self._book = parse_tokens(text)
        except TokenError as error:
            raise SettingsError(f"{PREFIX}TOKENS_FILE: {path}: {error}") from None
        self._text: str | None = text
        """Content at the last read; None if it could not be read."""
        self._settled = True

    def find(self, token: str) -> Principal | None:
        """The principal of a token; None if it is not valid."""
        return self._book.find(token)

    def look(self) -> bool:
        """Read the file; returns whether the valid tokens changed. May block."""
        try:
            text: str | None = _read(self.path)
        except TokenError as error:
            text = None
            self._refuse(str(error))
        if text != self._text:
            self._text, self._settled = text, False
            return False
        if self._settled or text is None:
            return False
        self._settled = True
        return self._take(text)

    async def follow_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def _take(self, text: str) -> bool:
        try:
            book = parse_tokens(text)
        except TokenError as error:
            self._refuse(str(error))
            return False
        self.error = ""
        self._book = book
        log.info("Took up the tokens anew", file=str(self.path), tokens=len(book.entries))
        return True

    def _refuse(self, error: str) -> None:
        """Log the error once; the valid tokens do not change."""
        if error != self.error:
            log.error(
                "Kept the old tokens: the file cannot be used", file=str(self.path), why=error
            )
        self.error = error


def read_tokens_file(path: Path) -> TokenBook:
    """The tokens of a file. Raises TokenError."""
    return parse_tokens(_read(path))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(_LIMIT + 1)
    except OSError as error:
        raise TokenError(f"cannot read it: {error.strerror}; name a readable file") from None
    if len(data) > _LIMIT:
        raise TokenError(f"it has more than {_LIMIT >> 20} MiB; name the right file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TokenError("it is not text in UTF-8; name the right file") from None
