"""Settings that list host names or networks, and whether a name or address is in them."""

from __future__ import annotations

import ipaddress
import re

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"\.?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


def parse_networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by commas. Raises ValueError, which names the wrong one."""
    networks: list[Network] = []
    for word in _words(text):
        try:
            networks.append(ipaddress.ip_network(word, strict=False))
        except ValueError:
            raise ValueError(
                f"{word[:60]!r} is neither an address nor a network; write e.g. 10.0.0.0/8"
            ) from None
    return tuple(networks)


def parse_names(text: str) -> tuple[str, ...]:
    """Host names in small letters, separated by commas; ``.example.com`` stands for all names below
    it and for itself. Raises ValueError, which names the wrong one."""
    names = []
    for word in _words(text):
        if _NAME.fullmatch(word) is None:
            raise ValueError(
                f"{word[:60]!r} is no host name; write names without scheme and port, separated by "
                "commas, e.g. quadrant.example.com"
            )
        names.append(word.lower())
    return tuple(names)


def _words(text: str) -> list[str]:
    return [word for word in map(str.strip, text.split(",")) if word]
