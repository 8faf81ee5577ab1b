"""API server and etcd, and schedulers and controllers of Kubernetes, Volcano and KAI: built once by
Go, in a cache outside the tree.

``python -m tests.kubernetes.servers.build`` builds what is missing (``make kubernetes``). Each
folder here is a Go module that requires one project and is held by the hashes of its ``go.sum``;
Go's own module cache has the downloads. A project's definitions of its kinds are copied beside its
programs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laboratory.local_kubernetes.binaries import Binaries
from shared.die_with_parent import die_with_parent

FOLDER = Path(__file__).parent
CACHE = "KUBERNETES_SERVERS"
"""Environment variable that names the folder of the cache."""
MISSING = (
    "no Kubernetes API server with its controllers in {folder}: "
    f"`make kubernetes` builds them (it needs Go), and {CACHE} names another folder"
)


@dataclass(frozen=True, slots=True)
class Module:
    """Programs of one project, at the versions of its ``go.mod`` here."""

    name: str
    project: str
    programs: Mapping[str, str]
    """File name -> Go package."""
    version_package: str = ""
    """Package with the version that the programs report, where somebody reads it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variable of a Go package -> its value, where no option of a program sets it."""
    definitions: tuple[str, ...] = ()
    """Patterns of files with CustomResourceDefinitions, within the project."""

    @property
    def source(self) -> Path:
        return FOLDER / self.name

    @property
    def version(self) -> str:
        """Version of the project."""
        text = (self.source / "go.mod").read_text()
        required = re.search(rf"\b{re.escape(self.project)} (v\S+)", text)
        assert required is not None, f"{self.source}/go.mod requires no {self.project}"
        return required[1]

    @property
    def folder(self) -> Path:
        """The programs of this state of the module; other versions or options are beside it."""
        digest = hashlib.sha256(self.options().encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.source / name).read_bytes())
        return cache_folder() / f"{self.name}-{digest.hexdigest()[:16]}"

    def options(self) -> str:
        """Options of the linker: no tables for debuggers (106 MB of API server, not 150), the
        version to report, and other variables."""
        variables = dict(self.variables)
        if self.version_package:
            major, minor, _ = self.version.removeprefix("v").split(".")
            versions = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
            for name, text in versions.items():
                variables[f"{self.version_package}.{name}"] = text
        return " ".join(["-s -w", *(f"-X {name}={text}" for name, text in variables.items())])

    @property
    def complete(self) -> bool:
        return all((self.folder / name).is_file() for name in self.programs)


KUBERNETES = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    },
    version_package="k8s.io/component-base/version",
)
VOLCANO = Module(
    "volcano",
    "volcano.sh/volcano",
    {
        "vc-controller-manager": "volcano.sh/volcano/cmd/controller-manager",
        "vc-scheduler": "volcano.sh/volcano/cmd/scheduler",
    },
    definitions=("config/crd/*/bases/*.yaml",),
)
_KAI = "github.com/NVIDIA/KAI-scheduler"
KAI = Module(
    "kai",
    _KAI,
    {
        name: f"{_KAI}/cmd/{name}"
        for name in ("binder", "podgroupcontroller", "podgrouper", "queuecontroller", "scheduler")
    },
    # Its controller of PodGroups takes an address for metrics and uses the default all the same.
    variables={"sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress": "0"},
    definitions=("deployments/kai-scheduler/crds/*.yaml",),
)
MODULES = (KUBERNETES, VOLCANO, KAI)


def cache_folder() -> Path:
    root = os.environ.get(CACHE)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) if root else Path(caches) / "quadrant" / "kubernetes"


def find_binaries() -> Binaries | None:
    """Binaries that ``make kubernetes`` built for this state of the modules."""
    return Binaries(KUBERNETES.folder) if all(module.complete for module in MODULES) else None


def build() -> Binaries:
    """Build what is missing. Errors: SystemExit where Go is absent or fails."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second build waits for the first and finds its result
        for module in MODULES:
            if not module.complete:
                _build(module)
    return Binaries(KUBERNETES.folder)


def _build(module: Module) -> None:
    if shutil.which("go") is None:
        sys.exit("no `go` on PATH: install Go 1.26 or newer to build the Kubernetes API server")
    begin = time.monotonic()
    folder = module.folder
    _tell(f"Building {', '.join(module.programs)} into {folder} (once)")
    # Renamed as a whole: a build that was interrupted is no cache.
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    for name, package in module.programs.items():
        options = ("-mod=readonly", "-trimpath", "-ldflags", module.options())
        _go(module, "build", *options, "-o", str(partial / name), package)
    project = Path(_go(module, "list", "-m", "-f", "{{.Dir}}", module.project).strip())
    for pattern in module.definitions:
        for path in project.glob(pattern):
            # The module cache has files that nobody may write.
            (partial / path.name).write_text(path.read_text())
    if module.folder != folder:
        sys.exit(f"{module.source}/go.mod or go.sum changed during the build; build again")
    partial.rename(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    _tell(f"Built {size / 1e6:.0f} MB in {time.monotonic() - begin:.0f} s")


def _go(module: Module, *arguments: str) -> str:
    """Run Go in the module's folder, and return its output."""
    result = subprocess.run(
        ["go", *arguments],
        cwd=module.source,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent(),
        check=False,
    )
    if result.returncode != 0:
        command = " ".join(("go", *arguments))
        sys.exit(f"`{command}` in {module.source} failed with {result.returncode}")
    return result.stdout


def _tell(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    print(build().folder)  # noqa: T201
