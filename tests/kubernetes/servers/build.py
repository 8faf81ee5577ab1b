"""kube-apiserver, kube-scheduler and etcd: built once by Go, kept in a cache outside the tree.

``python -m tests.kubernetes.servers.build`` builds what is missing (``make kubernetes``). Sources
and versions are those of ``go.mod``, held by the hashes of ``go.sum``; Go's own module cache has
the downloads.
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
from pathlib import Path

from laboratory.local_kubernetes.binaries import Binaries
from shared.die_with_parent import die_with_parent

MODULE = Path(__file__).parent
COMMANDS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
CACHE = "KUBERNETES_SERVERS"
"""Environment variable that names the folder of the cache."""
MISSING = (
    "no Kubernetes API server in {folder}: "
    f"`make kubernetes` builds it (it needs Go), and {CACHE} names another folder"
)


def cache_folder() -> Path:
    """The folder of this state of the module: other versions or options are built beside it."""
    root = os.environ.get(CACHE)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(root) if root else Path(caches) / "quadrant" / "kubernetes"
    digest = hashlib.sha256(_options().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return base / digest.hexdigest()[:16]


def find_binaries() -> Binaries | None:
    """Binaries that ``make kubernetes`` built for this state of the module."""
    binaries = Binaries(cache_folder())
    return binaries if _complete(binaries) else None


def _complete(binaries: Binaries) -> bool:
    return all((binaries.folder / name).is_file() for name in COMMANDS)


def build() -> Binaries:
    """Build what is missing. Errors: SystemExit where Go is absent or fails."""
    binaries = Binaries(cache_folder())
    binaries.folder.parent.mkdir(parents=True, exist_ok=True)
    with (binaries.folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second build waits for the first and finds its result
        if not _complete(binaries):
            _build_into(binaries.folder)
    return binaries


def _build_into(folder: Path) -> None:
    if shutil.which("go") is None:
        sys.exit("no `go` on PATH: install Go 1.26 or newer to build the Kubernetes API server")
    begin = time.monotonic()
    print(f"Building {', '.join(COMMANDS)} into {folder} (once)", file=sys.stderr)  # noqa: T201
    # Renamed as a whole: a build that was interrupted is no cache.
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    for name, package in COMMANDS.items():
        _go_build(partial / name, package)
    partial.rename(folder)
    print(f"Built in {time.monotonic() - begin:.0f} s", file=sys.stderr)  # noqa: T201


def _go_build(target: Path, package: str) -> None:
    command = [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-ldflags",
        _options(),
        "-o",
        str(target),
    ]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    result = subprocess.run(
        [*command, package],
        cwd=MODULE,
        env=environment,
        preexec_fn=die_with_parent(),
        check=False,
    )
    if result.returncode != 0:
        sys.exit(f"`go build {package}` in {MODULE} failed with {result.returncode}")


def _options() -> str:
    """Options of the linker: no tables for debuggers (106 MB of API server, not 150), and the
    version that the server reports."""
    major, minor, _ = version().removeprefix("v").split(".")
    info = "k8s.io/component-base/version"
    versions = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {info}.{name}={text}" for name, text in versions.items())])


def version() -> str:
    """Version of Kubernetes in ``go.mod``."""
    required = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text())
    assert required is not None, "go.mod requires no k8s.io/kubernetes"
    return required[1]


if __name__ == "__main__":
    print(build().folder)  # noqa: T201
