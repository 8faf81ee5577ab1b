"""How a command ends when it does not end well."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""As shells tell of a process that SIGINT ended: 128 and the signal's number."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of an OSError that say that the disk, or the user's part of it, is full."""


class CommandError(Exception):
    """Told to the user as one sentence on stderr, without a traceback; ends with exit ``code``."""

    def __init__(self, message: str, *, code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def as_command_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Tell errors of these kinds, whose text is for people, as the command's own."""
    try:
        yield
    except kinds as error:
        raise CommandError(str(error)) from None
