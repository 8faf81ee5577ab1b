"""``plugins`` and ``volumes`` of a Job: what Volcano's job controller adds to its pods."""

from __future__ import annotations

from dataclasses import dataclass

from shared.codec.packed import replace
from shared.errors import did_you_mean
from shared.manifests.fields.reader import Fields, subdomain
from shared.manifests.volcano.objects import RoleManifest
from shared.manifests.volcano.policies import DependsOn

PLUGINS = (
    "env",
    "hcclrank",
    "mpi",
    "pytorch",
    "ray",
    "ringsconfigmap",
    "ssh",
    "svc",
    "tensorflow",
)
_ARGUMENTS = 100
_VOLUMES = 1000
_LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class JobPlugins:
    """Name -> arguments, as written."""

    arguments: dict[str, tuple[str, ...]]

    @property
    def notice(self) -> str:
        """Notice for the Job's author about its plugins; "" for none."""
        if not self.arguments:
            return ""
        names = ", ".join(sorted(self.arguments))
        return f"spec.plugins: {names}: kept and shown; the simulated cluster does not run it"

    def ordered(self, roles: tuple[RoleManifest, ...]) -> tuple[RoleManifest, ...]:
        """The roles, with the one dependency that a plugin adds: an MPI master begins when its
        workers run, as Volcano's admission writes it into the Job."""
        if "mpi" not in self.arguments:
            return roles
        master, worker = self._argument("master"), self._argument("worker")
        if master == worker or worker not in {role.name for role in roles}:
            return roles
        waits = DependsOn((worker,), any=False)
        return tuple(
            replace(role, depends_on=waits)
            if role.name == master and role.depends_on is None
            else role
            for role in roles
        )

    def _argument(self, name: str) -> str:
        """The value of ``--name=value`` among the arguments of mpi; by default the name itself."""
        for argument in self.arguments["mpi"]:
            flag, _, value = argument.lstrip("-").partition("=")
            if flag == name and value:
                return value
        return name


def read_plugins(spec: Fields) -> JobPlugins:
    fields = spec.child("plugins")
    if fields is None:
        return JobPlugins({})
    for name in fields.data:
        if name not in PLUGINS:
            hint = did_you_mean(name, PLUGINS)
            raise fields.wrong(name, f"unknown plugin; {hint}write one of {', '.join(PLUGINS)}")
    return JobPlugins({name: fields.texts(name, longest=_ARGUMENTS) for name in fields.data})


@dataclass(frozen=True, slots=True)
class JobVolumes:
    """``claims``: existing claims that every pod uses."""

    claims: tuple[str, ...] = ()
    notice: str = ""

    def added(self, spec: object) -> object:
        """The spec of a pod with a volume for each claim: placing the pod depends on it."""
        if not self.claims or not isinstance(spec, dict):
            return spec
        volumes = spec.get("volumes") or []
        if not isinstance(volumes, list):
            return spec  # refused where it is read
        more = [
            {"name": f"job-volume-{i}", "persistentVolumeClaim": {"claimName": name}}
            for i, name in enumerate(self.claims)
        ]
        return spec | {"volumes": [*volumes, *more]}


def read_volumes(spec: Fields) -> JobVolumes:
    claims: list[str] = []
    paths: set[str] = set()
    changed = False
    for volume in spec.children("volumes", longest=_VOLUMES):
        volume.check("JobVolume")
        path = volume.text("mountPath", longest=_LONGEST_PATH)
        if not path or path in paths:
            state = "another volume is mounted there" if path else "missing"
            raise volume.wrong("mountPath", f"{state}; write a path of its own")
        paths.add(path)
        name, claim = volume.text("volumeClaimName"), volume.child("volumeClaim")
        if bool(name) == (claim is not None):
            message = "write either the name of a claim here or volumeClaim"
            raise volume.wrong("volumeClaimName", f"{'twice' if name else 'missing'}; {message}")
        if name:
            claims.append(subdomain(name, volume.path("volumeClaimName")))
        changed = changed or claim is not None
    notice = "spec.volumes: volumeClaim is kept and shown; nobody makes the claim here, name one"
    return JobVolumes(tuple(dict.fromkeys(claims)), notice if changed else "")
