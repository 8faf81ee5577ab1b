"""Numbers in texts that anybody may write: annotations, labels, names of resources.

A text of a few bytes can take all memory as a number (``1e999999999``), and Python turns no more
than 4,300 digits into one. So every such text is read here, in time that does not depend on what it
says; beyond the bounds it is no number.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

_WHOLE = re.compile(r"[0-9]{1,15}")
_SIGNED = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}")
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


def decimal_number(text: str) -> Fraction | None:
    """A decimal number without sign and exponent, exactly; None for any other text."""
    return Fraction(text) if _DECIMAL.fullmatch(text) else None


def finite_number(text: str) -> float | None:
    """A number as Python writes it, neither infinite nor NaN; None for any other text."""
    if len(text) > _LONGEST_FLOAT or not text.isascii():
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
