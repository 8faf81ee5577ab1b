"""The surroundings of the tests: of the machine they have its programs, and nothing else.

What a user has set, and what lies in the user's home, decides nothing. Each test has a home and a
run directory of its own; what a whole process of the tests shares has those of the process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.kubernetes.servers import build as servers
from tests.oracle import build as oracle

_NAMES = frozenset(("CI", "EXAMPLES", "KUBECTL", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"))
_PREFIXES = ("COV_", "HYPOTHESIS_", "LC_", "PYTEST_", "PYTHON", "SSL_CERT_")
"""Variables that a test may see of the shell: programs, and how the tests themselves are run.

Not ``PYTHONDONTWRITEBYTECODE``: each ``quadrant`` that a test starts would compile the product."""


GO = {"GOGC": "400"}
"""Programs in Go collect garbage when their heap is five times as large as what they hold, not
twice: an API server and its etcd take three quarters of the processor time, and 110 MB more."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of a shell's environment that the tests see."""
    environment = {
        name: text
        for name, text in environ.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and name != "PYTHONDONTWRITEBYTECODE"
    }
    # Servers and programs that are built once are in the user's cache.
    caches = {module.CACHE: str(module.cache_folder()) for module in (servers, oracle)}
    paths = {name: environ.get(name) or path for name, path in caches.items()}
    return environment | paths | GO


class Home:
    """An empty home with a run directory, short enough for the sockets of both."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="qt-"))
        self.environ = {"HOME": str(self.path), "XDG_RUNTIME_DIR": str(self.path)}

    def is_as_new(self) -> bool:
        """Whether nothing was written to it."""
        return self.path.is_dir() and not os.listdir(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def set_environment(environ: Mapping[str, str]) -> None:
    """Make it this process's environment, and that of what it starts."""
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    for name, text in environ.items():
        if os.environ.get(name) != text:
            os.environ[name] = text
