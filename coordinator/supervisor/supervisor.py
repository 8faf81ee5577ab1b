"""Owns the processes of one installation, as siblings: ledger, Ray head, cluster, coordinators.

::

    async with Supervisor(load_settings(shards=4)) as running:
        print(running.url)           # the coordinator answers here
        await running.wait()         # until a process dies that should not: raises ChildDied

In place of ``wait``, :class:`coordinator.supervisor.restarts.Keeper` starts again what died. What
the settings name as running elsewhere (``redis_url``, ``ray_address``, ``cluster_socket``) is used
and left alone. A coordinator may be replaced alone: it holds nothing that the ledger does not. With
``settings.standby`` there are two of them, alike; which one leads they settle themselves.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import SecretStr

from coordinator.supervisor import ray_head
from coordinator.supervisor.child_process import Child, ChildDied, command_line, descendants
from coordinator.supervisor.live_run import LOCK, claim
from coordinator.supervisor.readiness import answers_well, listens, quiet_port
from shared.ledger.errors import ServerFailed
from shared.ledger.redis.server import EmbeddedServer
from shared.policy.file import ACCEPTED_FILE
from shared.secrets.private_dir import NotPrivate, check_below, make_private, open_private
from shared.secrets.secret_file import new_secret, write_secret
from shared.settings.places import durable_dir
from shared.settings.settings import PREFIX, Settings

LEDGER = "ledger"
RAY = "ray"
CLUSTER = "cluster"
COORDINATOR = "coordinator"
STANDBY = "standby"
"""Role of the second coordinator. It keeps this name even while it leads."""
ROLES = (LEDGER, RAY, CLUSTER, COORDINATOR, STANDBY)
COORDINATORS = (COORDINATOR, STANDBY)

START_SECONDS = {LEDGER: 60.0, RAY: 60.0, CLUSTER: 30.0, COORDINATOR: 120.0, STANDBY: 120.0}
STOP_SECONDS = {LEDGER: 10.0, RAY: 8.0, CLUSTER: 15.0, COORDINATOR: 10.0, STANDBY: 10.0}
SECRET_FILES = {"redis_password": "ledger.password", "ray_token": "ray.token"}
"""Setting -> file in the run directory that passes the secret to the children."""
_SECRETS = (*SECRET_FILES.values(), ACCEPTED_FILE)
"""Files of the run directory that nobody else may read; a policy may contain a URL with a
password."""
_DEATHS_AT_START = 3
"""Deaths of one role while another one starts, before the start is given up."""
_POLL = 0.02
_WORKER = "ray::ShardActor"


class SupervisorError(RuntimeError):
    """The processes cannot be started with these settings; the message has the reason and
    remedy."""


class Supervisor:
    """Starts missing processes on entry; stops all that it started on exit, even after an error.

    ``on_phase`` gets a short text of what is being waited for. ``roles`` limits what is started
    (for tests of a part). Enter it in the main thread: the children live as long as that thread.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_phase: Callable[[str], None] | None = None,
        roles: Collection[str] = ROLES,
    ) -> None:
        self.settings = settings
        """Settings for the children; addresses are filled in while they start."""
        self.exit_codes: dict[str, int | None] = {}
        """Role -> exit code when it was stopped; 0 from a cluster process means that its history is
        complete."""
        self.ray_environment: dict[str, str] = {}
        """Extra environment of processes that join the Ray head."""
        self._on_phase = on_phase or (lambda text: None)
        self._wanted = roles
        self._children: dict[str, Child] = {}
        self._server: EmbeddedServer | None = None
        self._expected: set[str] = set()
        self._head_processes = ray_head.HeadProcesses()
        self._lock: BinaryIO | None = None
        self._secrets: list[Path] = []
        self._standby_port = 0
        self._short = settings.run_dir
        """Directory of sockets: the run directory, or a temporary one if that path is too long."""

    # --- what can be asked --------------------------------------------------------------------

    @property
    def url(self) -> str:
        """URL of the first coordinator."""
        return f"{self.settings.scheme}://{self.settings.listen_host}:{self.settings.listen_port}"

    @property
    def urls(self) -> list[str]:
        """URLs of the coordinators; the leader serves, the other says who leads."""
        ports = [self._port(role) for role in COORDINATORS if role in self._children]
        return [f"{self.settings.scheme}://{self.settings.listen_host}:{port}" for port in ports]

    def pids(self) -> dict[str, int]:
        """Role -> pid of each running process."""
        pid_of = {role: child.pid for role, child in self._children.items()}
        if self._server is not None and self._server.running():
            pid_of[LEDGER] = self._server.pid
        return {role: pid for role, pid in pid_of.items() if pid is not None}

    def roles(self) -> list[str]:
        """Roles of the processes started here."""
        return [*([LEDGER] if self._server is not None else []), *self._children]

    def log(self, role: str) -> Path:
        """The log file of a role."""
        if role == LEDGER and self._server is not None:
            return self._server.log
        return self.settings.run_dir / "log" / f"{role}.log"

    def worker_pids(self) -> list[int]:
        """Pids of the shard workers, which are below a Ray head started here."""
        head = self.pids().get(RAY)
        below = sorted(descendants(head)) if head else []
        return [pid for pid in below if command_line(pid).startswith(_WORKER)]

    def dead(self) -> dict[str, ChildDied]:
        """Role -> error of each child that ended unexpectedly, or lost what it needs to work."""
        deaths = {
            role: ChildDied(role, child.code, child.log)
            for role, child in self._children.items()
            if role not in self._expected and not child.running()
        }
        if RAY not in deaths and RAY not in self._expected and (lost := self._lost_of_ray()):
            deaths[RAY] = ChildDied(RAY, None, self._children[RAY].log, lost=lost)
        server = self._server
        if server is not None and LEDGER not in self._expected and not server.running():
            deaths[LEDGER] = ChildDied(LEDGER, None, server.log)
        return deaths

    def _lost_of_ray(self) -> str:
        """The program that the Ray head lost since it came up; "" for none."""
        head = self.pids().get(RAY)
        if head is None or not self._ray_is_up():
            return ""
        port = (self.settings.ray_address or "").rpartition(":")[2]
        return self._head_processes.lost(head, int(port))

    def check(self) -> None:
        """Raise ChildDied if a process ended unexpectedly."""
        for died in self.dead().values():
            raise died

    async def wait(self) -> None:
        """Never returns; raises ChildDied when a process ends unexpectedly."""
        while True:
            self.check()
            await asyncio.sleep(0.1)

    # --- what can be done ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            self._prepare()
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stop()

    def kill(self, role: str) -> None:
        """SIGKILL a process and its descendants. It stays down until :meth:`restart`."""
        if role == LEDGER and self._server is not None:
            self._expected.add(role)
            self._server.kill()
        else:
            child = self._child(role)
            self._expected.add(role)
            child.kill()

    async def restart(self, role: str) -> None:
        """Stop a process, start it again at its old address, and wait until it is ready."""
        await self.start(role)
        await self._ready(role)

    async def start(self, role: str) -> None:
        """Restart a process without waiting; see :meth:`answers`."""
        self._expected.add(role)
        try:
            if role == LEDGER and self._server is not None:
                self._server.stop(STOP_SECONDS[LEDGER])
                self._server.start(START_SECONDS[LEDGER])
            else:
                child = self._child(role)
                if role == RAY and self._lost_of_ray():
                    child.kill()  # it waits in vain for what it lost, and has nothing to save
                await child.stop(STOP_SECONDS[role])
                self._forget_address(role)
                child.start()
        finally:
            self._expected.discard(role)  # one that does not start is dead

    # --- start --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the directories, private to this user, and take the lock against a second run."""
        paths = {k: getattr(self.settings, k) for k in ("run_dir", "data_dir", "history")}
        self.settings = self.settings.replace(**{k: path.absolute() for k, path in paths.items()})
        run_dir = self.settings.run_dir
        # before the lock, which would be the first thing to follow a planted link
        _take_up(run_dir, f"{PREFIX}RUN_DIR")
        data_dir = durable_dir(run_dir)
        if data_dir != run_dir and data_dir in self.settings.data_dir.parents:
            _take_up(data_dir, f"{PREFIX}DATA_DIR")
        lock = open_private(run_dir / LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SupervisorError(
                f"another supervisor uses {run_dir}; stop it, or choose another directory "
                f"with {PREFIX}RUN_DIR"
            ) from None
        self._lock = lock
        claim(lock, self.settings.history, pid=os.getpid())
        self._short = run_dir
        if len(os.fsencode(run_dir / "ray")) > ray_head.LONGEST_TEMP_DIR:
            self._short = Path(tempfile.mkdtemp(prefix="quadrant-"))

    async def _start(self) -> None:
        """Start everything concurrently. The coordinator needs ledger and cluster; what it does
        before it needs workers, it does while Ray starts."""
        self._on_phase("starting ledger, Ray and cluster")
        self._keep_secrets()
        if self._wants(RAY, self.settings.ray_address):
            self._start_ray()
        elif self.settings.ray_address:
            self.ray_environment = ray_head.environment(self.settings.ray_token_file, ours=False)
        if self._wants(LEDGER, self.settings.redis_url):
            self._start_ledger()
        if not self.settings.kubernetes and self._wants(CLUSTER, self.settings.cluster_socket):
            self._start_cluster()
        await self._wait_for(CLUSTER)
        if COORDINATOR in self._wanted:
            self._start_coordinator()
        await self._wait_for(RAY)
        if COORDINATOR in self._wanted:
            self._on_phase("waiting for the coordinator and its workers")
            # A Ray head gives its own processes 30 s: too little on a machine with much else to do.
            await self._ready(COORDINATOR, restarts=(RAY,))
        if self.settings.standby and STANDBY in self._wanted:
            self._on_phase("waiting for the standby")
            self._start_standby()
            await self._ready(STANDBY, restarts=ROLES)
        self._on_phase("running")

    async def _wait_for(self, role: str) -> None:
        """Until it is ready, where it is started here."""
        if role in self._children:
            self._on_phase(f"waiting for {role}")
            await self._ready(role)

    def _wants(self, role: str, elsewhere: str | None) -> bool:
        return role in self._wanted and elsewhere is None

    def _keep_secrets(self) -> None:
        """Write secrets given as variables to files for the children. A Redis server or Ray head
        started here gets a new secret if none was given."""
        settings = self.settings
        ours = {
            "redis_password": (LEDGER, settings.redis_url),
            "ray_token": (RAY, settings.ray_address),
        }
        for name, (role, elsewhere) in ours.items():
            if getattr(settings, name) is None and self._wants(role, elsewhere):
                self.settings = self.settings.replace(**{name: SecretStr(new_secret())})
        for name, file in SECRET_FILES.items():
            secret = getattr(self.settings, name)
            if secret is not None and getattr(self.settings, f"{name}_file") is None:
                path = write_secret(settings.run_dir / file, secret.get_secret_value())
                self._secrets.append(path)
                self.settings = self.settings.replace(**{f"{name}_file": path})

    def _start_ledger(self) -> None:
        self._server = EmbeddedServer(
            self._short,
            self.settings.data_dir,
            self.settings.redis_secret,
            fsync=self.settings.fsync,
            json_log=self.settings.log_format != "console",
        )
        try:
            self._server.start(START_SECONDS[LEDGER])
        except ServerFailed as error:
            raise SupervisorError(f"the ledger's server did not start: {error}") from None
        self.settings = self.settings.replace(redis_url=self._server.url)

    def _start_ray(self) -> None:
        self.ray_environment = ray_head.environment(self.settings.ray_token_file, ours=True)
        ray_head.forget_address(self._short / "ray")
        # Chosen here, as the coordinator is told the address before the head has come up.
        port = quiet_port(ray_head.HOST)
        self._spawn(RAY, self._ray_arguments(port))
        self.settings = self.settings.replace(ray_address=f"{ray_head.HOST}:{port}")

    def _ray_arguments(self, port: int) -> list[str]:
        return ray_head.arguments(
            self._short / "ray",
            cpus=self.settings.shards + 2,
            object_store_bytes=self.settings.ray_object_store_bytes,
            port=port,
        )

    def _start_cluster(self) -> None:
        path = str(self._short / "cluster.sock")
        settings = self.settings
        arguments = {
            "socket": path,
            "history": settings.history,
            "redis": settings.redis_url,
            "speedup": settings.speedup,
            "grace": settings.grace,
            "faults": settings.cluster_faults,
            "seed": settings.seed,
        }
        options = [f"--{name}={value}" for name, value in arguments.items() if value is not None]
        self._spawn(
            CLUSTER, [sys.executable, "-m", "coordinator.cluster.simulated.server", *options]
        )
        self.settings = settings.replace(cluster_socket=path)

    def _start_coordinator(self) -> None:
        if not self.settings.listen_port:
            port = quiet_port(self.settings.listen_host)
            self.settings = self.settings.replace(listen_port=port)
        self._spawn(COORDINATOR, [sys.executable, "-m", "coordinator.service"])

    def _start_standby(self) -> None:
        """Start the standby after the first coordinator, so that the first one leads initially."""
        self._standby_port = quiet_port(self.settings.listen_host)
        settings = self.settings.replace(listen_port=self._standby_port)
        self._spawn(STANDBY, [sys.executable, "-m", "coordinator.service"], settings)

    def _port(self, role: str) -> int:
        return self._standby_port if role == STANDBY else self.settings.listen_port

    def _spawn(self, role: str, arguments: list[str], settings: Settings | None = None) -> None:
        environment = self._environment(settings or self.settings)
        # Ray writes text, and its library does so in our own processes too, past their logging:
        # at a signal, for example.
        relayed = self.settings.log_format != "console"
        child = Child(role, arguments, environment, self.log(role), relayed=relayed)
        self._children[role] = child
        child.start()

    def _environment(self, settings: Settings) -> dict[str, str]:
        """This process's environment with exactly these settings and this Ray cluster."""
        drop = ("RAY_ADDRESS", "RAY_AUTH_TOKEN")
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(PREFIX) and k not in drop
        }
        return inherited | {"PYTHONUNBUFFERED": "1"} | self.ray_environment | settings.environment()

    # --- ready --------------------------------------------------------------------------------

    async def _ready(self, role: str, *, restarts: Collection[str] = ()) -> None:
        """Wait until a process is ready. One of ``restarts`` that dies meanwhile is started again
        with those that end because of it, as the keeper does it later; any other death raises
        ChildDied."""
        deaths: Counter[str] = Counter()
        deadline = time.monotonic() + START_SECONDS[role]
        while not await self.answers(role) or not all([await self.answers(r) for r in deaths]):
            for dead, died in self.dead().items():
                deaths[dead] += 1
                if deaths.keys().isdisjoint(restarts) or deaths[dead] > _DEATHS_AT_START:
                    raise died
                await self.start(dead)
                deadline = time.monotonic() + START_SECONDS[dead] + START_SECONDS[role]
            if time.monotonic() > deadline:
                raise ChildDied(role, None, self.log(role))
            await asyncio.sleep(_POLL)

    async def answers(self, role: str) -> bool:
        """Whether a process is ready. A standby coordinator counts as ready."""
        match role:
            case "ray":
                return self._ray_is_up()
            case "cluster":
                return await listens(self.settings.cluster_socket or "")
            case "coordinator" | "standby":
                return await self._well(role, "/readyz") or (
                    STANDBY in self._children and await self._well(role, "/healthz")
                )
            case _:
                return True  # the embedded server has answered before start() returns

    async def leader(self) -> str | None:
        """The role of the coordinator that takes requests now; None if none does."""
        for role in COORDINATORS:
            if role in self._children and await self._well(role, "/readyz"):
                return role
        return None

    async def _well(self, role: str, path: str) -> bool:
        return await answers_well(self.settings, self._port(role), path)

    def _ray_is_up(self) -> bool:
        address = ray_head.read_address(self._short / "ray")
        return address == self.settings.ray_address

    def _forget_address(self, role: str) -> None:
        """Delete the address file of a role, since a new process may have another address."""
        if role == RAY:
            (self._short / "ray" / ray_head.ADDRESS_FILE).unlink(missing_ok=True)
        elif role == CLUSTER:
            Path(self.settings.cluster_socket or "").unlink(missing_ok=True)

    # --- stop ---------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stop all children, clients before the servers they use. None survives, even if this is
        interrupted."""
        try:
            # The standby first, or it would take over from the coordinator that is stopped next.
            for role in (STANDBY, COORDINATOR, RAY, CLUSTER):
                if child := self._children.get(role):
                    self._expected.add(role)
                    self.exit_codes[role] = await child.stop(STOP_SECONDS[role])
        finally:
            for child in self._children.values():
                child.kill()
            if self._server is not None:
                self._server.stop(STOP_SECONDS[LEDGER])
            self._clean()

    def _clean(self) -> None:
        if self._lock is None:
            return  # nothing was begun here: what is there is another supervisor's, or unknown
        for path in self._secrets:
            path.unlink(missing_ok=True)
        shutil.rmtree(self._short / "ray", ignore_errors=True)
        if self._short != self.settings.run_dir:
            shutil.rmtree(self._short, ignore_errors=True)
        self._lock.close()
        self._lock = None

    def _child(self, role: str) -> Child:
        if role not in self._children:
            started = ", ".join(self.pids()) or "none"
            raise SupervisorError(f"{role} is not a process started here; these are: {started}")
        return self._children[role]


def _take_up(directory: Path, variable: str) -> None:
    """Make a directory private, or check that it is. ``variable``: the setting that chooses it."""
    try:
        make_private(directory)
        check_below(directory, secrets=_SECRETS, left_alone=(RAY,))
    except NotPrivate as error:
        raise SupervisorError(f"{variable}: {error}") from None
