"""A server of the control plane as a child of ours, and a port that stays its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from laboratory.local_kubernetes.errors import LocalClusterFailed
from shared.die_with_parent import die_with_parent

LOOPBACK = "127.0.0.1"
_LINES_SHOWN = 30


class ReservedPort:
    """A free port of the loopback that nobody else is given while this object holds it.

    The server binds it a second time, with SO_REUSEPORT. A bound socket that does not listen gets
    no connection, so that the port refuses as long as the server is down.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class ServerProcess:
    """Killed and started again under the same arguments; it ends when its parent does."""

    def __init__(
        self, command: Sequence[str | Path], folder: Path, *, within: Sequence[str] = ()
    ) -> None:
        """``within``: a command that becomes this one somewhere else, as in a network namespace."""
        self._command, self._within = list(map(str, command)), list(within)
        self._folder = folder
        """Where it works and logs."""
        self._log = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self._command[0]).name

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        assert self._process is None, f"{self.name} runs already"
        # It ends with the thread that starts it, and one of a pool ends at some later time.
        assert threading.current_thread() is threading.main_thread()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, *self._command],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # Not SIGTERM: an API server whose etcd is gone never ends by it, and a process that
                # is paused does not see it.
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509
            )

    def kill(self) -> None:
        """Kill it, as a crash would. No effect where it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ended(self) -> bool:
        """Whether it ended by itself or by a signal of somebody else, since it was started. It may
        be started again then."""
        if self._process is None or self._process.poll() is None:
            return False
        self._process = None
        return True

    def check(self) -> None:
        """Raise with the end of its log where it ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process = None
            raise LocalClusterFailed(f"{self.name} ended with {code}:\n{self.last_lines()}")

    def last_lines(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:])
