"""Policies by name, as their files have them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laboratory.lab.week import WeekError
from shared.policy.file import read_text, unwrap
from shared.policy.model import Policy, PolicyError
from shared.policy.volcano import DEFAULT_POLICY

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy as its file has it. ``text`` "" is the default policy."""

    name: str = DEFAULT
    text: str = ""

    @classmethod
    def read(cls, file: Path | str) -> NamedPolicy:
        """Raises :class:`WeekError`."""
        try:
            policy = cls(Path(file).stem, read_text(file))
        except OSError as error:
            raise WeekError(f"{file}: cannot be read: {error.strerror}") from None
        except PolicyError as error:
            raise WeekError(f"{file}: {error}") from None
        policy.parse()
        return policy

    def parse(self) -> Policy:
        """Raises :class:`WeekError`."""
        if not self.text:
            return DEFAULT_POLICY
        try:
            return unwrap(self.text).parse()
        except PolicyError as error:
            lines = str(error).split("\n")
            raise WeekError("\n".join(f"policy {self.name}: {line}" for line in lines)) from None


def named(policy: Path | str | None) -> NamedPolicy:
    """The policy of a file; None: the default. Raises :class:`WeekError`."""
    return NamedPolicy() if policy is None else NamedPolicy.read(policy)
