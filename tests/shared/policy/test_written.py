"""A policy that is written out and read again is the same policy."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.dialect import parse_policy
from shared.policy.kai_model import KaiOptions, KaiPolicy, SearchBudgets
from shared.policy.kai_names import ACTIONS, GENERATORS
from shared.policy.model import Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.policy.written import written

VOLCANO = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: priority, enableJobOrder: false}
  - {name: nodeorder, arguments: {nodeaffinity.weight: 3}}
- plugins: [{name: usage, arguments: {usage.weight: 7}}]
configurations: [{name: allocate, arguments: {predicateErrorCacheEnable: true}}]
metrics: {type: prometheus, address: "http://prometheus:9090", interval: 45s,
  tls: {insecureSkipVerify: "true"}}
"""
KAI = """
dialect: kai
actions: "allocate, reclaim"
tiers: [{plugins: [{name: proportion, arguments: {kValue: "0.5"}}, {name: gpuspread}]}]
usageDBConfig: {clientType: ledger, usageParams: {halfLifePeriod: 12h, windowSize: 2w}}
"""
SECONDS = st.integers(0, 10**13).map(lambda thousands: thousands / 1000)


def again(policy: Policy) -> Policy:
    return parse_policy(json.loads(json.dumps(written(policy))))


@pytest.mark.parametrize("text", [VOLCANO, KAI, "dialect: kai"])
def test_a_policy_file_survives_writing_and_reading(text: str) -> None:
    policy = parse_policy(text)
    assert again(policy) == policy


def test_the_default_is_kept() -> None:
    assert again(DEFAULT_POLICY) == DEFAULT_POLICY


def options() -> st.SearchStrategy[KaiOptions]:
    """Each option with values of the type of its default."""
    values: dict[type, st.SearchStrategy[Any]] = {
        str: st.text("abc/.-", min_size=1),
        bool: st.booleans(),
        int: st.integers(0, 1000),
        float: SECONDS,
    }
    usual = KaiOptions()
    fields = {f.name: values[type(getattr(usual, f.name))] for f in dataclasses.fields(KaiOptions)}
    negative = {"default_staleness_grace_period": SECONDS | st.just(-1.0)}
    return st.builds(KaiOptions, **fields | negative)


def bounds(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(st.sampled_from(names), SECONDS)


@given(
    options(),
    st.dictionaries(st.sampled_from(ACTIONS), st.integers(1, 99)),
    st.tuples(SECONDS, bounds(ACTIONS), SECONDS, SECONDS, SECONDS, bounds(tuple(GENERATORS))),
)
def test_every_option_depth_and_budget_is_kept(
    drawn: KaiOptions, depth: dict[str, int], times: tuple[Any, ...]
) -> None:
    action, actions, job, least, generator, generators = times
    budgets = SearchBudgets(
        action=action,
        actions=actions,
        job=job,
        least_of_a_job=least,
        generator=generator,
        generators=dict(SearchBudgets().generators) | generators,
    )
    policy = parse_policy("dialect: kai")
    kai = KaiPolicy(options=drawn, queue_depth=depth, budgets=budgets)
    policy = Policy(policy.actions, policy.tiers, dialect=policy.dialect, kai=kai)
    assert again(policy) == policy
