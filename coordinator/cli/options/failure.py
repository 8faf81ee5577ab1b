"""How a command ends when it does not end well."""

from __future__ import annotations

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class CommandError(Exception):
    """Told to the user as one sentence on stderr, without a traceback; ends with exit ``code``."""

    def __init__(self, message: str, *, code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.code = code
