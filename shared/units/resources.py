"""Comparing and combining amounts of resources, with the rules Volcano compares by.

Amounts are mappings from slot to number. Whole numbers in the unit of their slot are the rule; what
proportion computes a queue deserves may be fractional. Two amounts count as equal when they differ
by less than :data:`EPSILON` units (Volcano: 0.1 thousandth of a core or of a device, 0.1 byte),
which for whole numbers means that they are equal.

Slots ``cpu`` and ``memory`` always exist; a mapping that lacks one says 0. Every other slot is a
*scalar*: a mapping has it or lacks it, and :class:`MissingScalar` says what it means that the
right-hand side lacks one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from shared.units.slots import CPU, MEMORY, PODS

EPSILON = 0.1
Amount = int | float
Amounts = Mapping[int, Amount]


class MissingScalar(Enum):
    """The meaning of a scalar that the right-hand side lacks."""

    ZERO = "nothing of it"
    INFINITY = "no limit on it"


def less_equal(left: Amounts, right: Amounts, missing: MissingScalar = MissingScalar.ZERO) -> bool:
    """LessEqual: cpu, memory and every scalar of ``left`` are at most, or about, ``right``'s.

    With INFINITY a scalar that only ``right`` has makes it false, as Volcano has it.
    """
    if missing is MissingScalar.INFINITY and not _scalars(right) <= _scalars(left):
        return False
    return not exceeding(left, right, missing)


def exceeding(
    left: Amounts, right: Amounts, missing: MissingScalar = MissingScalar.ZERO
) -> list[int]:
    """LessEqualWithResourcesName: the slots where ``left`` is more than ``right``, in order."""
    return [
        slot
        for slot in sorted({CPU, MEMORY, *left})
        if not (missing is MissingScalar.INFINITY and slot > MEMORY and slot not in right)
        and not at_most(left.get(slot, 0), right.get(slot, 0))
    ]


def exceeding_on(
    left: Amounts | None, right: Amounts | None, requested: Amounts | None
) -> list[int]:
    """LessEqualWithDimensionAndResourcesName: :func:`exceeding` limited to the requested slots.

    Exact, without EPSILON. ``pods`` is ignored. If ``left`` has no scalars, scalars pass. Without
    ``left`` nothing exceeds, without ``right`` every slot does, and without ``requested`` it is
    :func:`exceeding`.
    """
    if left is None:
        return []
    if right is None:
        return sorted({CPU, MEMORY, *left})
    if requested is None:
        return exceeding(left, right)
    scalars = bool(_scalars(left))
    return [
        slot
        for slot in sorted(requested)
        if slot != PODS
        and requested[slot] > 0
        and (scalars or slot <= MEMORY)
        and left.get(slot, 0) > right.get(slot, 0)
    ]


def less_equal_partly_on(left: Amounts, right: Amounts, requested: Amounts) -> bool:
    """LessEqualPartlyWithDimensionZeroFiltered: whether ``left`` is at most ``right`` in some
    requested slot in which either is above zero."""
    return any(
        at_most(left.get(slot, 0), right.get(slot, 0))
        for slot, amount in requested.items()
        if amount > 0 and not (empty_amount(left.get(slot, 0)) and empty_amount(right.get(slot, 0)))
    )


def greater_partly_on(left: Amounts, right: Amounts, requested: Amounts) -> bool:
    """GreaterPartlyWithRelevantDimensions: whether ``left`` is above ``right`` in some requested
    slot. Skips cpu and memory where ``right`` is about 0, and scalars that ``right`` lacks.
    """
    return any(
        left.get(slot, 0) > right.get(slot, 0)
        for slot, amount in requested.items()
        if amount > 0 and (slot in right if slot > MEMORY else not empty_amount(right.get(slot, 0)))
    )


def exceeded(left: Amounts, right: Amounts) -> dict[int, Amount]:
    """ExceededPart: ``left`` minus ``right`` per slot, at least 0."""
    return {slot: max(left.get(slot, 0) - right.get(slot, 0), 0) for slot in {*left, *right}}


def min_dimension(left: Amounts, right: Amounts, missing: MissingScalar) -> dict[int, Amount]:
    """MinDimensionResource: the minimum of both per slot; a scalar that ``right`` lacks becomes 0
    (ZERO) or stays (INFINITY)."""
    return {
        slot: amount
        if missing is MissingScalar.INFINITY and slot > MEMORY and slot not in right
        else min(amount, right.get(slot, 0))
        for slot, amount in left.items()
    }


def maximum(left: Amounts, right: Amounts) -> dict[int, Amount]:
    """Max: the larger of both per slot; negative scalars are dropped."""
    both = {slot: max(left.get(slot, 0), right.get(slot, 0)) for slot in {CPU, MEMORY}}
    for slot in _scalars(left) | _scalars(right):
        largest = max(side[slot] for side in (left, right) if slot in side)
        if largest >= 0:
            both[slot] = largest
    return both


def subtract(left: Amounts, right: Amounts) -> dict[int, Amount]:
    """Sub: ``left`` minus ``right``. If ``left`` has no scalars, those of ``right`` are ignored.

    Raises ArithmeticError if ``right`` exceeds ``left``: then a total was miscounted.
    """
    if over := exceeding(right, left):
        raise ArithmeticError(f"cannot take more than there is of slots {over}")
    return subtract_below_zero(left, right)


def subtract_below_zero(left: Amounts, right: Amounts) -> dict[int, Amount]:
    """SubWithoutAssert: :func:`subtract` with negative results allowed."""
    slots = {*left, *right} if _scalars(left) else {*left, *({CPU, MEMORY} & right.keys())}
    return {slot: left.get(slot, 0) - right.get(slot, 0) for slot in slots}


def share(part: Amount, whole: Amount) -> float:
    """Share: ``part / whole``; if ``whole`` is 0, 0 for a part of 0, else 1."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(part: Amounts, whole: Amounts) -> float:
    """The largest share over the slots of ``whole``, at least 0."""
    largest = 0.0
    for slot, amount in part.items():
        if slot in whole:
            largest = max(largest, share(amount, whole[slot]))
    return largest


def at_most(left: Amount, right: Amount) -> bool:
    """Less than or about equal to ``right``."""
    return left < right or abs(left - right) < EPSILON


def empty_amount(amount: Amount) -> bool:
    return amount < EPSILON


def _scalars(amounts: Iterable[int]) -> set[int]:
    return {slot for slot in amounts if slot > MEMORY}
