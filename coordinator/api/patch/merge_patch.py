"""JSON merge patch (RFC 7386): null deletes, objects merge, all else is replaced."""

from __future__ import annotations

from typing import Any


def merge_patch(old: Any, patch: Any) -> Any:
    """The changed value. ``old`` is not modified; the result shares parts with it."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merge_patch(new.get(name), value)
    return new
