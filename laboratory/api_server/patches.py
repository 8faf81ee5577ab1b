"""Patches of objects: JSON merge patches (RFC 7386) and Kubernetes' strategic merge patches."""

from __future__ import annotations

from typing import Any

from laboratory.api_server.answers import Json, NotServed

_MERGED_BY = {"conditions": "type"}
"""Lists that a strategic patch merges, and the field that tells their items apart."""
_REPLACED = frozenset({"containerStatuses", "tolerations"})
"""Lists that a strategic patch replaces."""


def merge_patch(value: Json, patch: Json) -> Json:
    """``value`` with a merge patch; neither is changed, and the result shares parts of both."""
    result = dict(value)
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            before = result.get(key)
            result[key] = merge_patch(before if isinstance(before, dict) else {}, change)
        else:
            result[key] = change
    return result


def strategic_merge_patch(value: Json, patch: Json) -> Json:
    """As :func:`merge_patch`, but lists of some fields are merged by the keys of their items.

    Raises NotServed for lists whose way is not known here, and for directives.
    """
    result = dict(value)
    for key, change in patch.items():
        if key.startswith("$"):
            raise NotServed(f"a strategic patch with {key}")
        if change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            result[key] = strategic_merge_patch(result.get(key) or {}, change)
        elif isinstance(change, list) and key not in _REPLACED:
            result[key] = _merged_list(key, result.get(key) or [], change)
        else:
            result[key] = change
    return result


def _merged_list(field: str, value: list[Json], patch: list[Any]) -> list[Json]:
    by = _MERGED_BY.get(field)
    if by is None:
        raise NotServed(f"a strategic patch of the list {field}")
    before = {item[by]: item for item in value}
    patched = [strategic_merge_patch(before.get(item[by], {}), item) for item in patch]
    named = {item[by] for item in patch}
    others = [item for item in value if item[by] not in named]
    return _interleaved(others, patched, [item[by] for item in value], by)


def _interleaved(others: list[Json], patched: list[Json], order: list[Any], by: str) -> list[Json]:
    """Items that the patch does not name go before the first patched one that was after them; new
    ones come first (apimachinery's ``mergeSortedSlice``)."""
    at = {key: i for i, key in enumerate(order)}
    left, right, result = list(others), list(patched), []
    while left or right:
        goes_on = right and not (left and at[left[0][by]] < at.get(right[0][by], -1))
        result.append((right if goes_on else left).pop(0))
    return result
