"""What a listener beyond this machine must have: tokens."""

from __future__ import annotations

import ipaddress

from coordinator.api.auth.token_file import TokenFile
from coordinator.api.http.health import HealthCheck
from shared.settings.settings import PREFIX, Settings, SettingsError


def open_gate(settings: Settings) -> TokenFile | None:
    """The tokens to ask for; None = none are asked for.

    Raises SettingsError for a file that cannot be used, and where others than this machine's users
    could come in without a token.
    """
    if settings.tokens_file is not None:
        return TokenFile(settings.tokens_file)
    if not is_loopback(settings.listen_host):
        raise SettingsError(
            f"{PREFIX}LISTEN_HOST: {settings.listen_host} is reached from other machines, and no "
            f"token is asked for; name a file of tokens with {PREFIX}TOKENS_FILE (quadrant token "
            "new --file makes one), or listen on 127.0.0.1"
        )
    return None


def token_checks(tokens: TokenFile | None) -> list[HealthCheck]:
    """What health says of the tokens, where they are asked for."""
    if tokens is None:
        return []
    return [HealthCheck("tokens", lambda: _told(tokens.error), needed=False)]


def _told(error: str) -> str:
    return f"older tokens count, the file is bad: {error}" if error else ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it. A name other than localhost may mean anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
