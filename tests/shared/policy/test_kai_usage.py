"""``usageDBConfig``: who knows the usage of the past, and which of it counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.policy.dialect import parse_policy
from shared.policy.kai_usage import METRICS, UsageClient, UsageSettings, UsageWindow, WindowKind
from shared.policy.model import PolicyError
from shared.policy.reading import load_yaml

DAY = 86_400.0


def usage(text: str) -> tuple[UsageSettings, tuple[str, ...]]:
    document: Any = load_yaml(f"dialect: kai\nusageDBConfig: {text}")
    policy = parse_policy(document)
    assert policy.kai is not None
    assert policy.kai.usage is not None
    return policy.kai.usage, policy.warnings


def test_without_a_word_of_it_no_usage_counts() -> None:
    policy = parse_policy({"dialect": "kai"})
    assert policy.kai is not None
    assert policy.kai.usage is None


def test_the_defaults_are_kais() -> None:
    settings, warnings = usage("{clientType: prometheus, connectionString: 'http://p:9090/'}")
    assert settings.client is UsageClient.PROMETHEUS
    assert settings.address == "http://p:9090"
    assert settings.window == UsageWindow(kind=WindowKind.SLIDING, size=7 * DAY, half_life=0.0)
    times = (settings.resolution, settings.fetch_interval, settings.staleness)
    assert (*times, settings.query_timeout) == (60.0, 60.0, 300.0, 10.0)
    assert settings.metrics == METRICS
    assert warnings == ()


def test_every_parameter_is_read() -> None:
    settings, _ = usage(
        "{connectionStringEnvVar: PROMETHEUS_URL, usageParams: {halfLifePeriod: 36h, "
        "windowSize: 1w2d12h, windowType: tumbling, tumblingWindowStartTime: 2026-01-05T00:00:00Z, "
        "fetchInterval: 30s, stalenessPeriod: 2m, waitTimeout: 5s, extraParams: "
        "{gpuCapacityMetric: sum(gpus), queryResolution: 5m, usageQueryTimeout: 20s}}}"
    )
    assert settings.client is UsageClient.PROMETHEUS
    assert settings.variable == "PROMETHEUS_URL"
    start = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
    kind = WindowKind.TUMBLING
    assert settings.window == UsageWindow(
        kind=kind, size=9.5 * DAY, half_life=1.5 * DAY, start=start
    )
    times = (settings.resolution, settings.fetch_interval, settings.staleness)
    assert (*times, settings.query_timeout) == (300.0, 30.0, 120.0, 5.0)
    assert settings.metrics["gpuCapacityMetric"] == "sum(gpus)"


@pytest.mark.parametrize(
    ("text", "client", "warning"),
    [
        ("{clientType: ledger}", UsageClient.LEDGER, ""),
        ("{usageParams: {windowSize: 1d}}", UsageClient.LEDGER, ""),
        (
            "{clientType: prometheus}",
            UsageClient.LEDGER,
            "usageDBConfig: no connectionString: usage over time is what the ledger knows by "
            "itself",
        ),
        (
            "{clientType: fake}",
            UsageClient.FAKE,
            "usageDBConfig: clientType fake is KAI's own for tests: no usage is known",
        ),
    ],
)
def test_the_usage_client_type_selects_the_source(
    text: str, client: UsageClient, warning: str
) -> None:
    settings, warnings = usage(text)
    assert (settings.client, warnings) == (client, (warning,) if warning else ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{clientType: influx}", "usageDBConfig.clientType: 'influx' is not one of ledger, prom"),
        ("{clientTyp: ledger}", "did you mean 'clientType'?"),
        (
            "{connectionString: 'http://p', connectionStringEnvVar: P}",
            "usageDBConfig: both connectionString and connectionStringEnvVar",
        ),
        ("{connectionString: 'p:9090'}", "usageDBConfig.connectionString: 'p:9090' is not the"),
        (
            "{connectionString: 'ftp://me:secret@p'}",
            "usageDBConfig.connectionString: 'ftp://***@p' is not the",
        ),
        (
            "{clientType: ledger, connectionString: 'http://p'}",
            "usageDBConfig.connectionString: clientType ledger asks no server",
        ),
        ("{usageParams: {windowsize: 1w}}", "did you mean 'windowSize'?"),
        (
            "{usageParams: {windowSize: soon}}",
            "usageDBConfig.usageParams.windowSize: 'soon' is not",
        ),
        (
            "{usageParams: {windowSize: 30s}}",
            "usageDBConfig.usageParams.windowSize: '30s' is below",
        ),
        ("{usageParams: {windowType: hopping}}", "usageParams.windowType: 'hopping' is not one of"),
        (
            "{usageParams: {windowType: tumbling}}",
            "usageParams.tumblingWindowStartTime: nothing is not",
        ),
        ("{usageParams: {windowType: cron}}", "usageParams.cronString: nothing is not a schedule"),
        (
            "{usageParams: {windowType: cron, cronString: '0 0 * *'}}",
            "usageParams.cronString: '0 0 * *' has 4 fields",
        ),
        (
            "{usageParams: {extraParams: {queryResolution: 1ms}}}",
            "queryResolution: '1ms' is below 1s",
        ),
        (
            "{usageParams: {extraParams: {gpuMetric: x}}}",
            "extraParams.gpuMetric: unknown parameter",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as raised:
        usage(text)
    assert problem in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(PolicyError) as raised:
        usage("{clientType: influx, usageParams: {windowSize: soon, halfLifePeriod: never}}")
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize(
    ("window", "now", "since"),
    [
        (UsageWindow(size=100.0), 1000.0, 900.0),
        (UsageWindow(kind=WindowKind.TUMBLING, size=100.0, start=50.0), 449.0, 350.0),
        (UsageWindow(kind=WindowKind.TUMBLING, size=100.0, start=50.0), 450.0, 450.0),
        (UsageWindow(kind=WindowKind.TUMBLING, size=100.0, start=500.0), 450.0, 500.0),
    ],
)
def test_when_a_window_begins(window: UsageWindow, now: float, since: float) -> None:
    assert window.since(now) == since
