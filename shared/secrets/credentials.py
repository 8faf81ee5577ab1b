"""Addresses that are shown without the user, password or token in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_USERINFO = re.compile(
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*:/{1,2})"
    # user and password, up to the last @ of the host's part; one more / may stand in a password
    # that somebody forgot to encode, and then the part before it is no HOST[:PORT]
    r"(?:[^\s/?#\"'<>]*|[^\s/?#\"'<>@]*:(?![0-9]+/)[^\s\"'<>]*)@"
)
_PARAMETER = re.compile(
    r"(?P<name>[?&;](?:password|passwd|pass|pwd|token|access_token|api_?key|secret|sig)=)"
    r"[^&;#\s\"'<>]*",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """The text with user, password and secret parameters of every address in it replaced by
    ``***``. A path that went through ``Path``, which makes one slash of two, counts as an
    address."""
    if "/" not in text:
        return text
    hidden = _USERINFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\g<name>{HIDDEN}", hidden)


def without_credentials(value: Any) -> Any:
    """:func:`hide_credentials` for every text of a plain (JSON) value."""
    match value:
        case str():
            return hide_credentials(value)
        case Mapping():
            return {key: without_credentials(item) for key, item in value.items()}
        case list() | tuple():
            return [without_credentials(item) for item in value]
        case _:
            return value
