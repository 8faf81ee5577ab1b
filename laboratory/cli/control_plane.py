"""An API server and etcd of a command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from coordinator.cli.options.failure import CommandError
from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.errors import LocalClusterFailed
from laboratory.own_directory import create_own_directory, delete_own


@contextlib.contextmanager
def own_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """An API server and etcd of these programs, in a folder that is removed afterwards."""
    binaries = Binaries(folder.absolute())
    if missing := binaries.missing():
        raise CommandError(f"--servers: {folder} has no {missing[0]}; name the folder that has it")
    path = create_own_directory("qk-")  # short: etcd has a socket there
    try:
        plane = ControlPlane(path, binaries, audited=False)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()
    except LocalClusterFailed as error:
        raise CommandError(str(error)) from None
    finally:
        delete_own(path)
