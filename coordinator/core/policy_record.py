"""The policy in force as the ledger keeps it: a history tells by which rules was evicted."""

from __future__ import annotations

from shared.ledger.entries.intake_batch import PutObject
from shared.policy.model import Policy
from shared.records.specs import POLICY_KEY, encode_policy


def policy_op(policy: Policy) -> PutObject:
    """To be stored before any worker places by this policy: the checker holds a shard's commits to
    the policies since its epoch began."""
    return PutObject(POLICY_KEY, encode_policy(policy_mapping(policy)))


def policy_mapping(policy: Policy) -> dict[str, object]:
    """Actions in order; per tier the plugins with arguments and switches, where they have any."""
    tiers = [
        [
            {"name": option.name}
            | ({"arguments": option.arguments} if option.arguments else {})
            | ({"flags": option.flags} if option.flags else {})
            for option in tier
        ]
        for tier in policy.tiers
    ]
    return {"actions": list(policy.actions), "tiers": tiers}
