"""Requirements for listeners that other machines can reach: tokens."""

from __future__ import annotations

import ipaddress

from coordinator.api.auth.token_file import TokenFile
from shared.settings.settings import PREFIX, Settings, SettingsError


def open_gate(settings: Settings) -> TokenFile | None:
    """The token file; None = there is none. Raises SettingsError if it cannot be used, or if users
    of other machines could connect without a token.
    """
    if settings.tokens_file is not None:
        return TokenFile(settings.tokens_file)
    if not settings.access_reviews and not is_loopback(settings.listen_host):
        raise SettingsError(
            f"{PREFIX}LISTEN_HOST: {settings.listen_host} is reached from other machines, and no "
            f"token is asked for; name a file of tokens with {PREFIX}TOKENS_FILE (quadrant token "
            "new --file makes one), or listen on 127.0.0.1"
        )
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host. Names other than localhost may resolve
    anywhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
