"""Addresses shared by many clients: this machine's, and configured proxies."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from shared.settings.addresses import Network


class Proxies:
    def __init__(self, networks: tuple[Network, ...] = ()) -> None:
        self._networks = networks
        # Asked for each connection; what a flood of addresses costs is bounded.
        self.include = lru_cache(maxsize=4096)(self._include)
        """Whether an address is one of them. True for one that cannot be parsed (a unix
        socket's)."""

    def _include(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return True
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            return self._include(str(parsed.ipv4_mapped))
        return parsed.is_loopback or any(parsed in network for network in self._networks)
