"""A directory of sockets, secrets and state: of this user alone, with nothing planted in it.

The default one is in ``/tmp`` under a name that everybody can guess, so another user may have
created it first; and a directory that was open once may hold what others left there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivate(ValueError):
    """``found``: what is wrong with which file."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.found = problem
        self.remedy = remedy


def open_private(path: Path) -> BinaryIO:
    """Open a file to append to; where it is new, only this user may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    return open(os.open(path, flags, 0o600), "ab")


def make_private(directory: Path) -> None:
    """Create the directory for this user alone where it is missing; check it where it exists.

    Raises NotPrivate, and OSError where it cannot be created.
    """
    if not directory.is_symlink():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check(directory, os.lstat(directory), secret=True, link_is_fine=False)


def check_below(directory: Path, *, secrets: Collection[str], left_alone: Collection[str]) -> None:
    """Check every file below: it is ours, no symbolic link, and not writable by others; files
    named in ``secrets`` are not readable by others either. Raises NotPrivate.

    Below the directories named in ``left_alone`` only the owner is checked: another program keeps
    its files there and chooses their modes, and others cannot pass through ``directory`` anyway.
    """
    for path, status, top in _below(directory):
        foreign = top in left_alone
        _check(path, status, secret=path.name in secrets, link_is_fine=foreign, owner_alone=foreign)


def _below(directory: Path) -> Iterator[tuple[Path, os.stat_result, str]]:
    """Every entry below, without following links, with the name of the top-level entry that
    contains it."""

    def fail(error: OSError) -> None:
        raise NotPrivate(f"{error.filename} cannot be read: {error.strerror}", "remove it")

    for place, folders, files in os.walk(directory, onerror=fail):
        folder = Path(place)
        for name in (*folders, *files):
            path = folder / name
            try:
                # The link itself and not what it points to: that is chosen by who planted it.
                status = os.lstat(path)
            except FileNotFoundError:  # it went meanwhile
                continue
            yield path, status, path.relative_to(directory).parts[0]


def _check(
    path: Path,
    status: os.stat_result,
    *,
    secret: bool,
    link_is_fine: bool,
    owner_alone: bool = False,
) -> None:
    me, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid != me:
        wrong = f"{path} belongs to user {status.st_uid}, not to user {me} who starts this"
        raise NotPrivate(wrong, "remove it, or name another directory")
    if stat.S_ISLNK(status.st_mode):
        if link_is_fine:
            return
        raise NotPrivate(f"{path} is a symbolic link", "remove it, or name what it points to")
    if owner_alone:
        return
    if secret and mode & _OTHERS:
        raise NotPrivate(f"{path} is open to others (mode {mode:04o})", f"chmod go= {path}")
    if mode & _OTHERS_WRITE:
        raise NotPrivate(f"others may write {path} (mode {mode:04o})", f"chmod go-w {path}")
