"""A policy in the format of its dialect's file, so that another process can decide by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from shared.policy.kai_model import KaiOptions, KaiPolicy, SearchBudgets
from shared.policy.metrics_source import MetricsSource
from shared.policy.model import Dialect, Policy

_TIMES = frozenset({"default_staleness_grace_period", "stuck_in_releasing_threshold"})
"""Options that are durations."""


def written(policy: Policy) -> dict[str, object]:
    """The document: read again it is an equal policy. Defaults are written out, but for those of
    ``usageDBConfig``."""
    document: dict[str, object] = {
        "actions": ", ".join(policy.actions),
        "tiers": [
            {
                "plugins": [
                    {"name": option.name, **option.flags}
                    | ({"arguments": option.arguments} if option.arguments else {})
                    for option in tier
                ]
            }
            for tier in policy.tiers
        ],
    }
    if policy.configurations:
        document["configurations"] = [
            {"name": name, "arguments": arguments}
            for name, arguments in policy.configurations.items()
        ]
    if policy.metrics is not None:
        document["metrics"] = _metrics(policy.metrics)
    if policy.dialect is Dialect.KAI:
        document |= _of_kai(policy.kai or KaiPolicy())
    return document


def _metrics(source: MetricsSource) -> dict[str, object]:
    tls = {"tls": {"insecureSkipVerify": "true"}} if source.insecure else {}
    return {"address": source.address, "interval": _duration(source.interval), **tls}


def _of_kai(kai: KaiPolicy) -> dict[str, object]:
    return {
        "dialect": Dialect.KAI.value,
        "options": _options(kai.options),
        "queueDepthPerAction": dict(kai.queue_depth),
        "scenarioSearchBudgets": _budgets(kai.budgets),
        **({} if kai.usage is None else {"usageDBConfig": dict(kai.usage.written)}),
    }


def _options(options: KaiOptions) -> dict[str, object]:
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {
        name.replace("_", "-"): _duration(value) if name in _TIMES else value
        for name, value in values.items()
    }


def _budgets(budgets: SearchBudgets) -> dict[str, object]:
    return {
        "maxActionSearchDuration": _bounds(budgets.action, budgets.actions),
        "maxJobSearchDuration": _duration(budgets.job),
        "minJobSearchDuration": _duration(budgets.least_of_a_job),
        "maxGeneratorSearchDuration": _bounds(budgets.generator, budgets.generators),
    }


def _bounds(default: float, own: Mapping[str, float]) -> dict[str, str]:
    return {"default": _duration(default), **{name: _duration(own[name]) for name in own}}


def _duration(seconds: float) -> str:
    """Go's notation has no exponents; a nanosecond is its least step."""
    text = f"{seconds:.9f}".rstrip("0").rstrip(".")
    return f"{text}s"
