"""A machine: a network namespace, joined to this one by a cable that can be pulled.

All of them share the files and the processors of this machine; what is real is that each has its
own addresses and sees its own processes, that nothing reaches another but over the network, and
that the network can fail.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from shutil import which

import psutil

from coordinator.supervisor.child_process import command_line
from shared.die_with_parent import die_with_parent

RAY = "ray"
"""Folder of Ray's files, a private one on each machine."""
NETWORK = IPv4Address("198.18.0.0")
"""First of 2**17 addresses that are reserved for tests (RFC 2544)."""
RUNS, MACHINES, CABLE = 2**13, 4, 4
"""Runs, by process id, that have other addresses than each other; machines of a run; addresses of a
cable."""


def possible() -> bool:
    """Whether namespaces can be made here: it takes root, and Linux's tools."""
    return os.geteuid() == 0 and which("ip") is not None and _try("ip", "netns", "list")


@dataclass(slots=True)
class Machine:
    number: int
    folder: Path
    """The folder of its logs."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _first: int = 0
    """The first process there, without which there is none."""

    @property
    def name(self) -> str:
        return f"quadrant-{os.getpid()}-{self.number}"

    @property
    def address(self) -> str:
        return str(self._gateway + 1)

    @property
    def network(self) -> list[str]:
        """A command that becomes what stands behind it, in the machine's network: it is its
        starter's own child, which :meth:`run` cannot say of a process that has to see others."""
        return ["ip", "netns", "exec", self.name]

    @property
    def _gateway(self) -> IPv4Address:
        """The address of our end of the cable."""
        return NETWORK + CABLE * (os.getpid() % RUNS * MACHINES + self.number) + 1

    @property
    def _cable(self) -> str:
        """Our end of it."""
        return f"qt{os.getpid() % 100_000}-{self.number}"

    def plug_in(self) -> None:
        inner = f"{self._cable}i"
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", inner)
        _run("ip", "link", "set", inner, "netns", self.name)
        _run("ip", "addr", "add", f"{self._gateway}/30", "dev", self._cable)
        _run("ip", "link", "set", self._cable, "up")
        # Of this cable alone: to forward everywhere is not ours to begin, and not to end beside
        # another run.
        Path(f"/proc/sys/net/ipv4/conf/{self._cable}/forwarding").write_text("1")
        within = ("ip", "-n", self.name)
        _run(*within, "addr", "add", f"{self.address}/30", "dev", inner)
        _run(*within, "link", "set", "lo", "up")
        _run(*within, "link", "set", inner, "up")
        _run(*within, "route", "add", "default", "via", str(self._gateway))
        self._boot()

    def cut_off(self) -> None:
        """Pull the cable. What runs there runs on."""
        _run("ip", "link", "set", self._cable, "down")

    def join(self) -> None:
        """Put the cable back."""
        _run("ip", "link", "set", self._cable, "up")

    def run(
        self, command: Sequence[str | Path], *, log: str, **more: str
    ) -> subprocess.Popen[bytes]:
        """Start a process there; ``more`` are variables of its environment."""
        with (self.folder / f"{self.number}-{log}.log").open("ab") as file:
            process = subprocess.Popen(
                self._within(command),
                env=environment(more),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509
            )
        self.processes.append(process)
        return process

    def ask(self, command: Sequence[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
        """Run to its end, within a minute."""
        return subprocess.run(
            self._within(command),
            env=environment(more),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def processes_there(self) -> list[tuple[int, str]]:
        """(pid, command line)"""
        process = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False
        )
        pids = [int(pid) for pid in process.stdout.split()]
        return [(pid, command) for pid in pids if (command := command_line(pid))]

    def commands(self) -> list[str]:
        return [command for _, command in self.processes_there()]

    def pull(self) -> None:
        """The machine is gone: its cable, and all that ran."""
        self.cut_off()
        self.kill()

    def kill(self) -> None:
        for pid, _ in self.processes_there():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait(10)
        self.processes.clear()

    def remove(self) -> None:
        self.kill()
        _try("ip", "link", "del", self._cable)
        _run("ip", "netns", "del", self.name)

    def _within(self, command: Sequence[str | Path]) -> list[str]:
        """``nsenter`` stays, and ends as the command does."""
        target = ["nsenter", "--net", "--pid", "--mount", "--target", str(self._first)]
        return [*target, *map(str, command)]

    def _boot(self) -> None:
        """Start the first process of a process namespace: Ray looks at all processes for heads of
        its own, and would see those of the others."""
        alone = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
        first = subprocess.Popen(
            [*self.network, *alone, "sleep", "infinity"],
            preexec_fn=die_with_parent(),  # noqa: PLW1509
        )
        self.processes.append(first)
        while not (below := psutil.Process(first.pid).children(recursive=True)):
            time.sleep(0.01)
        self._first = below[-1].pid
        # Ray's sockets have names of which each machine has its own.
        own = self.folder / RAY
        own.mkdir(exist_ok=True)
        result = self.ask(["mount", "-t", "tmpfs", "none", own])
        assert result.returncode == 0, result.stderr


def environment(more: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith("QUADRANT_")
    }
    return inherited | dict(more)


def remove_leftovers() -> None:
    """Remove the namespaces of runs that were killed: their cables still have addresses. Another
    run may be at it, too."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    for name in re.findall(r"^quadrant-\d+-\d+", listed.stdout, re.MULTILINE):
        _, pid, number = name.split("-")
        if not psutil.pid_exists(int(pid)):
            _try("ip", "link", "del", f"qt{int(pid) % 100_000}-{number}")
            _try("ip", "netns", "del", name)


@contextlib.contextmanager
def machines(count: int, folder: Path) -> Iterator[list[Machine]]:
    """Create machines that reach each other by way of this one."""
    remove_leftovers()
    items = [Machine(number, folder) for number in range(1, count + 1)]
    try:
        for machine in items:
            machine.plug_in()
        yield items
    finally:
        for machine in items:
            with contextlib.suppress(subprocess.CalledProcessError):
                machine.remove()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _try(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
