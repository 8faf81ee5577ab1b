"""Messages about a wrong or unknown setting: its variable, and the nearest known name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from pydantic.fields import FieldInfo

VARIABLE_PREFIX = "QUADRANT_"

OF_CLIENTS = frozenset(
    (
        "QUADRANT_CA_FILE",
        "QUADRANT_SERVER",
        "QUADRANT_SERVICE",
        "QUADRANT_SERVICE_ACCOUNT",
        "QUADRANT_TOKEN",
        "QUADRANT_TOKEN_FILE",
    )
)
"""Variables of the command line client (server and token), which are no settings of a server."""

_KUBERNETES = re.compile(r"QUADRANT_(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)")
"""Variables that Kubernetes sets in every container beside a service named ``quadrant``: no
settings of ours."""

Fields = Mapping[str, FieldInfo]


def explain(
    place: tuple[int | str, ...], message: str, places: Mapping[str, str], fields: Fields
) -> str:
    """One line on a value that was refused. ``places``: how to name a setting that does not come
    from its variable."""
    message = message.removeprefix("Value error, ")
    if not place:
        return message
    name = str(place[0])
    field = fields.get(name)
    if field is None:
        return f"{_variable(name)}: not known{_nearest(_variable(name), fields)}"
    wrong = message[:1].lower() + message[1:]
    return f"{places.get(name, _variable(name))}: {wrong}; expected: {field.description}"


def unknown_variables(environment: Mapping[str, str], fields: Fields) -> list[str]:
    """One line for each variable that looks like a setting and is none."""
    variables = {_variable(name) for name in fields}
    return [
        f"{name}: not known{_nearest(name.upper(), fields)}"
        for name in sorted(environment)
        if name.upper().startswith(VARIABLE_PREFIX)
        and name.upper() not in variables | OF_CLIENTS
        and not _KUBERNETES.fullmatch(name)
    ]


def near(name: str, fields: Fields) -> str:
    """Suggest a replacement for an unknown name in a settings file."""
    candidates = difflib.get_close_matches(name.lower(), fields, n=1)
    return f"; did you mean {candidates[0]}?" if candidates else "; leave it out"


def _nearest(variable: str, fields: Fields) -> str:
    setting = variable.removeprefix(VARIABLE_PREFIX).lower()
    candidates = difflib.get_close_matches(setting, fields, n=1)
    return f"; did you mean {_variable(candidates[0])}?" if candidates else "; unset it"


def _variable(name: str) -> str:
    return VARIABLE_PREFIX + name.upper()
