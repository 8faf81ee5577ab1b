"""A policy file that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.cli.options.failure import CommandError

if TYPE_CHECKING:
    from shared.policy.model import Policy


def read_policy(file: Path) -> Policy:
    """A file in Volcano's form, or a ConfigMap that holds one. Raises :class:`CommandError`."""
    from shared.policy.file import read_text, unwrap
    from shared.policy.model import PolicyError

    try:
        return unwrap(read_text(file)).parse()
    except OSError as error:
        raise CommandError(f"{file}: cannot read it: {error.strerror}") from None
    except PolicyError as error:
        lines = "\n".join(f"{file}: {line}" for line in str(error).split("\n"))
        raise CommandError(lines) from None
