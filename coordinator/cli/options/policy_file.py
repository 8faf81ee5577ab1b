"""A policy file that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.cli.options.failure import CommandError, as_command_errors

if TYPE_CHECKING:
    from shared.policy.model import Policy
    from shared.settings.settings import Settings


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


def check_policy_early(**flags: Path | None) -> None:
    """Check the policy in force before a command imports what it needs to run, which takes a
    second. Raises :class:`CommandError`."""
    from shared.settings.settings import SettingsError, load_settings

    with as_command_errors(SettingsError):
        check_policy(load_settings(**flags))


def check_policy(settings: Settings) -> None:
    """Open a session of the policy that the settings name, before any process is started: the
    coordinator would refuse it ten seconds later. Raises SettingsError, in one line."""
    from shared.policy.dialect import parse_policy
    from shared.policy.model import PolicyError
    from shared.policy.volcano import DEFAULT_POLICY
    from shared.settings.settings import SettingsError

    try:
        content = settings.read_policy()
        from shard_worker.dialects.open_session import open_session  # NumPy: after the mistakes

        open_session(DEFAULT_POLICY if content is None else parse_policy(content))
    except (SettingsError, PolicyError) as error:
        text = "; ".join(str(error).splitlines())
        named = settings.policy is None or str(settings.policy) in text
        raise SettingsError(text if named else f"{settings.policy}: {text}") from None
