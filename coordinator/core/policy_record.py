"""The policy in force as the ledger records it, so that a history shows the rules behind an
eviction."""

from __future__ import annotations

from dataclasses import asdict

from shared.ledger.entries.intake_batch import PutObject
from shared.policy.kai_model import KaiOptions
from shared.policy.model import Dialect, Policy
from shared.records.specs import POLICY_KEY, encode_policy


def policy_op(policy: Policy) -> PutObject:
    """The operation to store before any worker places by this policy: the checker judges a shard's
    commits by the policies since its epoch began."""
    return PutObject(POLICY_KEY, encode_policy(policy_mapping(policy)))


def policy_mapping(policy: Policy) -> dict[str, object]:
    """Actions in order; per tier the plugins with arguments and switches, where they have any; the
    dialect where it is not Volcano's, as records from before there were two say nothing of it; and
    those of KAI's options that are not as usual."""
    tiers = [
        [
            {"name": option.name}
            | ({"arguments": option.arguments} if option.arguments else {})
            | ({"flags": option.flags} if option.flags else {})
            for option in tier
        ]
        for tier in policy.tiers
    ]
    dialect = {} if policy.dialect is Dialect.VOLCANO else {"dialect": policy.dialect.value}
    options = {} if policy.kai is None else _unusual(policy.kai.options)
    return {"actions": list(policy.actions), "tiers": tiers} | dialect | options


def _unusual(options: KaiOptions) -> dict[str, object]:
    usual = asdict(KaiOptions())
    unusual = {name: value for name, value in asdict(options).items() if value != usual[name]}
    return {"options": unusual} if unusual else {}
