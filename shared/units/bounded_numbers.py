"""Numbers in texts that anybody may write: annotations, labels, names of resources.

A text of a few bytes can take all memory as a number (``1e999999999``), and Python turns no more
than 4,300 digits into one. So every such text is read here, in time that does not depend on what it
says; beyond the bounds it is no number.
"""

from __future__ import annotations

import math
import re

_WHOLE = re.compile(r"[0-9]{1,15}")
_SIGNED = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_FLOAT = 40
_INT64 = 2**63


def whole_number(text: str) -> int | None:
    """A whole number of at most 15 digits, which is below 2**53; None for any other text."""
    return int(text) if _WHOLE.fullmatch(text) else None


def int64(text: str) -> int | None:
    """A whole number with an optional sign, within 64 bits as Kubernetes reads it; None for any
    other text."""
    number = int(text) if _SIGNED.fullmatch(text) else _INT64
    return number if -_INT64 <= number < _INT64 else None


def finite_number(text: str) -> float | None:
    """A decimal number, with an exponent or without; None for any other text, and beyond floats.
    Go's ParseFloat takes it, and neither the blanks nor the ``_`` that Python takes."""
    if len(text) > _LONGEST_FLOAT or not _FLOAT.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None
