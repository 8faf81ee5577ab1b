"""Requirements for listeners that other machines can reach: tokens."""

from __future__ import annotations

import ipaddress

from coordinator.api.auth.token_file import TokenFile
from coordinator.api.http.health import HealthCheck
from shared.settings.settings import PREFIX, Settings, SettingsError


def open_gate(settings: Settings) -> TokenFile | None:
    """The token file; None = no authentication. Raises SettingsError if it cannot be used, or if
    users of other machines could connect without a token.
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
    """Health checks of the tokens, if tokens are required."""
    if tokens is None:
        return []
    return [HealthCheck("tokens", lambda: _told(tokens.error), needed=False)]


def _told(error: str) -> str:
    return f"older tokens count, the file is bad: {error}" if error else ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host. Names other than localhost may resolve
    anywhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
