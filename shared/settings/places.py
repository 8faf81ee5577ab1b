"""Where files are kept if no setting says it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

DATA = "data"
"""The ledger's files, below the directory that survives."""


def default_run_dir() -> Path:
    """A private directory with a short path: sockets in it have a limit of about 100 bytes."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and len(runtime) < 40 and os.access(runtime, os.W_OK):
        return Path(runtime) / "quadrant"
    return Path(tempfile.gettempdir()) / f"quadrant-{os.getuid()}"


def durable_dir(run_dir: Path) -> Path:
    """The directory for files that have to survive a restart of the machine.

    It is the run directory if the user chose that. The default run directory is cleared by many
    systems, so the user's state directory (XDG Base Directory Specification) replaces it.
    """
    # An earlier version kept the ledger there: starting beside it would be starting empty.
    if run_dir != default_run_dir() or (run_dir / DATA).exists():
        return run_dir
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The specification has relative paths ignored.
    if state.is_absolute():
        return state / "quadrant"
    try:
        return Path.home() / ".local" / "state" / "quadrant"
    except RuntimeError:  # a user without a home, as in a container
        return run_dir


def default_history(run_dir: Path, data_dir: Path) -> Path:
    """The history of a run: beside the ledger's directory, or in it if the user chose that one. A
    history of two ledgers is none: it would break the promises of both."""
    durable = durable_dir(run_dir)
    return (durable if data_dir == durable / DATA else data_dir) / "history.jsonl"
