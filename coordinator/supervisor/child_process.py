"""A child process of the supervisor: started in its own session, ended with all its descendants.

A child also ends when its parent is killed (Linux: the kernel sends it SIGTERM). That signal is
tied to the thread that started the child, so start children from the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import orjson
import psutil

from shared.die_with_parent import die_with_parent
from shared.secrets.private_dir import open_private
from shared.telemetry.relay import Relay

DEPOSED = 3
"""Exit code of a coordinator that lost the leadership. Started again, it is a standby."""

_LAST_LINES = 15
_POLL = 0.02


class ChildDied(RuntimeError):
    """A process ended unexpectedly: its role, exit code, and the end of its log."""

    def __init__(
        self, role: str, code: int | None, log: Path, *, times: str = "", lost: str = ""
    ) -> None:
        """``lost``: the program without which the process lives on and is of no use."""
        self.role = role
        self.code = code
        self.log = log
        self.how = f"the {role} process " + (f"lost its {lost}" if lost else _how(code))
        super().__init__(f"{self.how}{times}{_reason(log)}")

    def often(self, times: int, seconds: float) -> ChildDied:
        """The error for a process that died too often within the window."""
        text = f", for the {times}th time within {seconds:g} s: it is given up"
        return ChildDied(self.role, self.code, self.log, times=text)


RELAY_SECONDS = 0.2
"""How long the last lines of a process may take to its log; children of it may keep the pipe."""


class Child:
    """A process that can be started again after its end."""

    def __init__(
        self,
        role: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        relayed: bool = False,
    ) -> None:
        """``relayed``: what it writes is text, and becomes JSON lines on its way to the log."""
        self._relayed = relayed
        self._relay: Relay | None = None
        self.role = role
        self.arguments = list(arguments)
        self.log = log
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Pid of the running process; None if it does not run."""
        return self._process.pid if self._process and self.running() else None

    @property
    def code(self) -> int | None:
        """Exit code of the last process (negative: the signal); None while it runs."""
        code = self._process.poll() if self._process else None
        if code is not None and self._relay is not None:
            self._relay.finish(RELAY_SECONDS)  # who asks reads the end of the log next
        return code

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, after ending what an earlier one left running. Raises OSError if the
        program cannot be started."""
        if self.running():
            return
        self.sweep()
        with open_private(self.log) as log:
            self._process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._relayed else log,
                stderr=subprocess.STDOUT if self._relayed else log,
                env=self._environment,
                # The session finds what a dead process left behind, and Ctrl-C in the terminal
                # reaches the supervisor alone, which ends the others in order.
                start_new_session=True,
                umask=0o077,  # what it writes is nobody else's, whatever the umask of the user
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - one system call, no allocation
            )
        if self._process.stdout is not None:
            self._relay = Relay(self._process.stdout, open_private(self.log), self.role)

    async def stop(self, timeout: float) -> int | None:
        """Send SIGTERM, after ``timeout`` seconds SIGKILL; ends all descendants. Returns the exit
        code."""
        if not self.running() or self._process is None:
            self.sweep()
            return self.code
        # Noted before: when the parent is gone, nothing tells whose children they were, and those
        # of a Ray head would stay (decision 0009).
        tree = descendants(self._process.pid)
        self._process.terminate()
        ended = await _until(lambda: not self.running(), timeout)
        if not ended:
            tree |= descendants(self._process.pid)
            self._process.kill()
        send_signal(signal.SIGKILL, tree)
        await _until(lambda: not self.running() and not any(map(_alive, tree)), 5.0)
        return self.code

    def kill(self) -> None:
        """Kill it and all its descendants at once, as a crash of its machine would."""
        if self._process is None or not self.running():
            self.sweep()
            return
        tree = descendants(self._process.pid)
        self._process.kill()
        send_signal(signal.SIGKILL, tree)
        self._process.wait()
        _wait_for_end(tree)

    def sweep(self) -> None:
        """End the remaining processes of a dead process's session.

        A Ray head that is killed alone leaves processes that hold its ports.
        """
        if self._process is not None and not self.running():
            survivors = in_session(self._process.pid)
            send_signal(signal.SIGKILL, survivors)
            _wait_for_end(survivors)


def descendants(pid: int) -> set[int]:
    """All current descendants of ``pid``."""
    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def in_session(leader: int) -> set[int]:
    """All running processes of the session that ``leader`` began, even if the leader is gone."""
    return {pid for pid in psutil.pids() if _session(pid) == leader and _alive(pid)}


def command_line(pid: int) -> str:
    """The command line of a process; "" if it is gone."""
    try:
        return " ".join(psutil.Process(pid).cmdline()).strip()
    except psutil.Error:
        return ""


def _reason(log: Path) -> str:
    """Why a process ended, where its last line says so; otherwise the end of its log."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        last = orjson.loads(_tail(log)[-1])
        if last.get("level") == "error" and "why" in last:
            return f": {last['event']}: {last['why']}\nIts log: {log}"
    return f"; the end of {log}:\n{last_lines(log)}"


def _tail(log: Path) -> list[str]:
    """The last lines of a log. Raises OSError."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        return file.read().decode(errors="replace").splitlines()


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    with contextlib.suppress(OSError):
        written = _tail(log)[-count:]
        lines = [part for line in written for part in _readable(line)][-count:]
        return "\n".join(f"  {line}" for line in lines) or "  (it is empty)"
    return "  (there is none)"


def _readable(line: str) -> list[str]:
    """A log line; of one with a traceback, what happened and then the lines of that."""
    with contextlib.suppress(ValueError):
        fields = orjson.loads(line) if line.startswith("{") else {}
        if "exception" in fields:
            return [str(fields.get("event", "")), *str(fields["exception"]).splitlines()]
    return [line]


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def _alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _wait_for_end(pids: set[int], seconds: float = 2.0) -> None:
    deadline = time.monotonic() + seconds
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(_POLL)


def send_signal(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _until(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


def _how(code: int | None) -> str:
    if code is None:
        return "does not answer"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
