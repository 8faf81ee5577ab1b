"""The programs of a cluster of our own: built elsewhere, found in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NEEDED = ("etcd", "kube-apiserver")


@dataclass(frozen=True, slots=True)
class Binaries:
    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def api_server(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def scheduler(self) -> Path:
        return self.folder / "kube-scheduler"

    def missing(self) -> list[str]:
        """Needed binaries that the folder lacks."""
        return [name for name in NEEDED if not (self.folder / name).is_file()]
