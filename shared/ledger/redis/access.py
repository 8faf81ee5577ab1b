"""How to reach the ledger's server: address, user, and which certificates to trust.

Secrets are kept apart from the address, so that the address can be shown.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from shared.codec.packed import Packed

TLS = "rediss://"


class Access(Packed, frozen=True):
    """Address, user and TLS files. ``username`` "": the server's default user.

    The files count for ``rediss://`` only: ``ca`` names the certificates to trust (and no others;
    "": those the system trusts), the other two are our certificate and its key, "" where the server
    asks for none.
    """

    url: str
    username: str = ""
    password: str | None = None
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The fields without the password, for whatever prints them."""
        return [("url", self.url), ("username", self.username), ("ca", self.ca)]

    def __repr__(self) -> str:
        return f"Access({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


def check_url(url: str) -> None:
    """Raises ValueError where the address holds a secret, or an option that weakens the connection;
    the message does not repeat the address."""
    if "@" in urlsplit(url).netloc or "password" in url.partition("?")[2]:
        raise ValueError(
            "a user or password stands in the address, where logs and process lists show it; "
            "use QUADRANT_REDIS_USERNAME and QUADRANT_REDIS_PASSWORD_FILE"
        )
    wrong = [name for name in parse_qs(urlsplit(url).query, keep_blank_values=True) if name != "db"]
    if wrong or urlsplit(url).fragment:
        raise ValueError("only ?db=NUMBER may follow the address; leave the rest out")


def check_files(access: Access) -> None:
    """Raises ValueError where the files do not belong to the address, or to one another."""
    files = [name for name in (access.ca, access.certificate, access.key) if name]
    if files and not access.url.startswith(TLS):
        raise ValueError("files of TLS are named, but the address is not rediss://HOST:PORT")
    if bool(access.certificate) != bool(access.key):
        raise ValueError("a certificate and its key belong together; name both or none")
    for name in files:
        try:
            with open(name, "rb"):
                pass
        except OSError as error:
            raise ValueError(
                f"cannot read {name}: {error.strerror}; name a readable file"
            ) from None
    if files:
        _try_files(access)


def _try_files(access: Access) -> None:
    import ssl  # only where it is needed: it takes as long to load as all of this

    try:
        rules = ssl.create_default_context(cafile=access.ca or None)
        if access.certificate:
            rules.load_cert_chain(access.certificate, access.key)
    except ssl.SSLError as error:
        names = ", ".join(filter(None, (access.ca, access.certificate, access.key)))
        raise ValueError(
            f"{names}: not certificates with the key that belongs to them ({error.reason}); "
            "name PEM files"
        ) from None
