"""Values of query parameters."""

from __future__ import annotations

from http import HTTPStatus

from coordinator.errors import Problem
from shared.errors import shown


def flag(text: str, name: str) -> bool:
    """Parse a boolean. Raises Problem (400)."""
    if text in ("", "1", "true", "True"):
        return True
    if text in ("0", "false", "False"):
        return False
    raise bad_parameter(name, text, "is no boolean; write true or false")


def bad_parameter(name: str, text: str, why: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, f"{name} {shown(text)} {why}")
