"""The minimum of a group as the ledger stores it: members, and of the groups below it.

A gang of KAI's may need some of its sub groups and not all. Both minima are one number of the job's
record, so that a record without a minimum of groups is as it was (docs/decisions/0065).
"""

from __future__ import annotations

CHILDREN = 2**32
"""A minimum of groups counts so many times beside the minimum of members, which is below it."""


def stored_minimum(members: int, children: int) -> int:
    """``children``: how many groups directly below must have their minima; 0 for no such rule."""
    return members + children * CHILDREN


def minimum_of_members(stored: int) -> int:
    return stored % CHILDREN
