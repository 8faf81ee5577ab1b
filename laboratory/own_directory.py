"""Directories of a run's own: created with a marker, and never deleted without it.

Runs that judge the service load nodes into a ledger, kill its server and throw its files away. All
of that is done in a directory that the run created, whatever the environment names for a service of
the user's; the marker is what a deletion looks for.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from shared.settings.places import DATA
from shared.settings.settings import DEFAULT, Settings, load_settings

MARKER = "created-by-quadrant-for-one-run"
"""An empty file in a run's directory."""

OF_A_SERVICE = (
    "redis_url",
    "redis_username",
    "redis_password",
    "redis_password_file",
    "redis_ca_file",
    "redis_cert_file",
    "redis_key_file",
    "cluster_id",
    "ray_address",
    "ray_token",
    "ray_token_file",
    "cluster_socket",
    "kubeconfig",
    "kube_context",
    "in_cluster",
    "shadow",
    "binder",
    "listen_host",
    "listen_port",
    "tls_cert_file",
    "tls_key_file",
    "tokens_file",
)
"""Settings that name the parts of a service: a run starts its own, which nobody else asks."""


class NotOwnDirectory(Exception):
    """A directory without the marker was about to be deleted."""


def create_own_directory(prefix: str = "quadrant-") -> Path:
    """A new directory with the marker, below the one for temporary files."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    (directory / MARKER).touch()
    return directory


def delete_own(directory: Path) -> None:
    """Delete a directory that :func:`create_own_directory` made, or one inside of it.

    Raises NotOwnDirectory.
    """
    if not any((each / MARKER).is_file() for each in (directory, *directory.parents)):
        raise NotOwnDirectory(f"{directory} is not deleted: no run created it")
    shutil.rmtree(directory, ignore_errors=True)


def own_settings(directory: Path, *, history: Path | None = None, **flags: Any) -> Settings:
    """Settings of a run whose files are all in this directory, but for a history kept elsewhere.

    The environment says how it schedules, not where it writes. Raises SettingsError.
    """
    own = {
        "run_dir": directory,
        "data_dir": directory / DATA,
        "history": directory / "history.jsonl" if history is None else history.absolute(),
        "access_reviews": False,
    }
    return load_settings(**dict.fromkeys(OF_A_SERVICE, DEFAULT) | own | flags)
