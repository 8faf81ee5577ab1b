"""The command, run in this process."""

from tests.coordinator.cli.conftest import quadrant

__all__ = ["quadrant"]
