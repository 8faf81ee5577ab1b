"""Limits on the number of values in an object, independent of its size in bytes.

Each step of intake costs about a microsecond per value, so this bounds how long one object can
occupy the handler. Its size in bytes does not: a megabyte may be one string or 350,000 empty lists.
"""

from __future__ import annotations

from typing import Any

from shared.errors import InvalidInput
from shared.slices import Steps, at_once

OBJECT_VALUES = 12_000
"""Maximum number of keys, items, objects and lists in an object. A Job of a hundred tasks with
every field has 5,000, a ResourceSlice of 128 devices 9,000; parsing this many takes 15 ms."""
MANAGED_VALUES = 48_000
"""The same limit for ``metadata.managedFields``, which has up to three values per field and is not
parsed."""


STEP_VALUES = 5000
"""Values counted per step: 1 to 2 ms, where a whole object at the limit takes 20 ms."""


def check_values(item: object) -> None:
    """:func:`checking_values`, in one go."""
    at_once(checking_values(item))


def checking_values(item: object) -> Steps[None]:
    """Raise InvalidInput if the object has too many values. Stops counting at the limit."""
    most = OBJECT_VALUES + (yield from _managed(item))
    if (yield from _counting(item, most)) > most:
        raise InvalidInput(
            "",
            None,
            f"more than {OBJECT_VALUES} values; split it, or leave out what the scheduler does "
            "not look at",
        )


def _managed(item: object) -> Steps[int]:
    """Count the values of the managed fields, which have a limit of their own."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    fields = metadata.get("managedFields") if isinstance(metadata, dict) else None
    count = yield from _counting(fields, MANAGED_VALUES)
    if count > MANAGED_VALUES:
        message = f"more than {MANAGED_VALUES} values; leave it out, the server knows it"
        raise InvalidInput("metadata.managedFields", None, message)
    return count


def within(value: Any, most: int) -> bool:
    """Whether the value contains at most ``most`` values."""
    return at_once(_counting(value, most)) <= most


def _counting(value: Any, most: int) -> Steps[int]:
    """Count the values inside a value, stopping just above ``most``."""
    count, stack = 0, [value] if type(value) is dict or type(value) is list else []
    due = STEP_VALUES
    while stack:
        inner = stack.pop()
        count += len(inner)
        if count > most:
            break
        values = inner.values() if type(inner) is dict else inner
        # Most values are no containers: a third of the time of one turn of the loop for each.
        stack += [item for item in values if type(item) is dict or type(item) is list]
        if count > due:
            due = count + STEP_VALUES
            yield
    return count
