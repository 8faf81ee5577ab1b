"""The settings and the policy that count here and now, and where each of them is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from coordinator.cli.admin.policy_report import PolicyReport, report
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.secrets.credentials import HIDDEN, hide_credentials
from shared.settings.settings import Settings, load_settings, origins


@dataclass(frozen=True, slots=True)
class Setting:
    """``value`` is None where it is not set; a secret is only ever ``***``, also in an address."""

    name: str
    value: str | int | float | None
    origin: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Effective:
    settings: tuple[Setting, ...]
    policy_from: str
    """The file, or that it is the default."""
    report: PolicyReport

    def as_json(self, *, origin: bool) -> dict[str, Any]:
        values: dict[str, Any] = {
            s.name: {"value": s.value, "origin": s.origin} if origin else s.value
            for s in self.settings
        }
        policy = self.report.as_json()
        return {"settings": values, "policy": {"from": self.policy_from, **policy}}


def effective(flags: Mapping[str, Any]) -> Effective:
    """Settings and policy that a process started now with these flags would run with.

    Raises SettingsError, and PolicyError where a plugin refuses the policy.
    """
    settings = load_settings(**flags)
    origin_of = origins(**flags)
    content = settings.read_policy()
    return Effective(
        settings=tuple(
            Setting(
                name=name,
                value=_plain(getattr(settings, name)),
                origin=hide_credentials(origin_of[name]),
                meaning=field.description or "",
            )
            for name, field in Settings.model_fields.items()
        ),
        policy_from="the default" if content is None else hide_credentials(str(settings.policy)),
        report=report(DEFAULT_POLICY if content is None else parse_policy(content)),
    )


def _plain(value: object) -> str | int | float | None:
    match value:
        case SecretStr():
            return HIDDEN
        case Path() | str():
            return hide_credentials(str(value))
        case None | int() | float():
            return value
        case _:
            raise TypeError(f"a setting of type {type(value).__name__} has no form to be shown in")
