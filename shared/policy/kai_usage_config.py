"""The reader of ``usageDBConfig``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from shared.policy.cron import CronError, CronSchedule, parse_cron
from shared.policy.kai_usage import (
    METRICS,
    WEEK,
    UsageClient,
    UsageSettings,
    UsageWindow,
    WindowKind,
)
from shared.policy.model import PolicyError, PolicyProblem, read_duration
from shared.policy.reading import ProblemReport, mapping, only_known, read_arguments, typed, wrong
from shared.secrets.credentials import hide_credentials
from shared.units.times import moment

AT = "usageDBConfig"
_FIELDS: dict[str, type] = {
    "clientType": str,
    "connectionString": str,
    "connectionStringEnvVar": str,
    "usageParams": dict,
}
_PARAMS = frozenset(
    {
        "cronString",
        "extraParams",
        "fetchInterval",
        "halfLifePeriod",
        "stalenessPeriod",
        "tumblingWindowStartTime",
        "waitTimeout",
        "windowSize",
        "windowType",
    }
)
_EXTRA_TIMES = ("queryResolution", "usageQueryTimeout")
_LONG = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(.*)")
"""Prometheus' units above an hour, before what Go writes."""
_LONG_SECONDS = (365 * 86_400.0, WEEK, 86_400.0)


def read_usage(report: ProblemReport, value: object, warnings: list[str]) -> UsageSettings | None:
    """The settings; None where the file has none, or a mistake, which is in ``report``."""
    if value is None:
        return None
    problems = len(report.problems)
    fields = read_arguments(report, value, _FIELDS, AT, prefixes={})
    params: dict[str, object] = {}
    with report.part():
        params = mapping(fields.get("usageParams") or {}, f"{AT}.usageParams")
    only_known(report, params, _PARAMS, f"{AT}.usageParams.", "field")
    settings = UsageSettings()
    with report.part():
        settings = _settings(report, fields, params, warnings)
    return settings if len(report.problems) == problems else None


def _settings(
    report: ProblemReport,
    fields: Mapping[str, object],
    params: Mapping[str, object],
    warnings: list[str],
) -> UsageSettings:
    client, address, variable = UsageClient.LEDGER, "", ""
    with report.part():
        client, address, variable = _client(fields, warnings)
    extra: Mapping[str, object] = {}
    with report.part():
        extra = mapping(params.get("extraParams") or {}, f"{AT}.usageParams.extraParams")
    at = f"{AT}.usageParams.extraParams"
    only_known(report, extra, (*METRICS, *_EXTRA_TIMES), f"{at}.", "parameter")
    metrics = dict(METRICS)
    for name in METRICS.keys() & extra.keys():
        with report.part():
            metrics[name] = typed(extra[name], str, f"{at}.{name}")
    times = {"queryResolution": 60.0, "usageQueryTimeout": 10.0}
    for name in times.keys() & extra.keys():
        with report.part():
            times[name] = _seconds(extra[name], f"{at}.{name}", least=1.0)
    usual = {"fetchInterval": 60.0, "stalenessPeriod": 300.0, "waitTimeout": 60.0}
    for name in usual.keys() & params.keys():
        with report.part():
            usual[name] = _seconds(params[name], f"{AT}.usageParams.{name}", least=1.0)
    window = UsageWindow()
    with report.part():
        window = _window(report, params, times["queryResolution"])
    return UsageSettings(
        client=client,
        address=address.rstrip("/"),
        variable=variable,
        window=window,
        resolution=times["queryResolution"],
        fetch_interval=usual["fetchInterval"],
        staleness=max(usual["stalenessPeriod"], usual["fetchInterval"]),
        query_timeout=min(times["usageQueryTimeout"], usual["waitTimeout"]),
        metrics=metrics,
        written={**fields, **({"usageParams": _plain(params)} if params else {})},
    )


def _plain(params: Mapping[str, object]) -> dict[str, object]:
    """The fields as JSON can have them: YAML reads a time without quotes as one."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in params.items()
    }


def _client(fields: Mapping[str, object], warnings: list[str]) -> tuple[UsageClient, str, str]:
    """(who knows, the address of a server, the environment variable that has it)."""
    address = str(fields.get("connectionString") or "")
    variable = str(fields.get("connectionStringEnvVar") or "")
    if address and variable:
        message = "both connectionString and connectionStringEnvVar say where Prometheus is; "
        raise PolicyError(PolicyProblem(AT, message + "leave one of the two out"))
    usual = UsageClient.PROMETHEUS if address or variable else UsageClient.LEDGER
    name = fields.get("clientType") or usual.value
    names = [client.value for client in UsageClient]
    if name not in names:
        raise wrong(f"{AT}.clientType", name, f"is not one of {', '.join(names)}")
    client = UsageClient(name)
    if client is UsageClient.PROMETHEUS and not (address or variable):
        warnings.append(
            f"{AT}: no connectionString: usage over time is what the ledger knows by itself"
        )
        return UsageClient.LEDGER, "", ""
    if client is UsageClient.LEDGER and (address or variable):
        field_of = "connectionString" if address else "connectionStringEnvVar"
        message = "clientType ledger asks no server; leave it out, or write clientType prometheus"
        raise PolicyError(PolicyProblem(f"{AT}.{field_of}", message))
    if client in (UsageClient.FAKE, UsageClient.FAKE_WITH_HISTORY):
        warnings.append(
            f"{AT}: clientType {client.value} is KAI's own for tests: no usage is known"
        )
    elif address and not _is_address(address):
        complaint = "is not the address of a server; write one such as http://prometheus:9090"
        raise wrong(f"{AT}.connectionString", hide_credentials(address), complaint)
    return client, address, variable


def _is_address(text: str) -> bool:
    address = urlsplit(text)
    return address.scheme in ("http", "https") and bool(address.netloc)


def _window(report: ProblemReport, params: Mapping[str, object], resolution: float) -> UsageWindow:
    at = f"{AT}.usageParams"
    size, half_life, start = WEEK, 0.0, 0.0
    cron: CronSchedule | None = None
    kinds = [kind.value for kind in WindowKind]
    name = params.get("windowType") or kinds[0]
    if name not in kinds:
        raise wrong(f"{at}.windowType", name, f"is not one of {', '.join(kinds)}")
    kind = WindowKind(name)
    with report.part():
        if params.get("windowSize") is not None:
            size = _seconds(params["windowSize"], f"{at}.windowSize", least=resolution)
    with report.part():
        if params.get("halfLifePeriod") is not None:
            half_life = _seconds(params["halfLifePeriod"], f"{at}.halfLifePeriod")
    with report.part():
        if kind is WindowKind.TUMBLING:
            start = _moment(params.get("tumblingWindowStartTime"), f"{at}.tumblingWindowStartTime")
    with report.part():
        if kind is WindowKind.CRON:
            cron = _cron(params.get("cronString"), f"{at}.cronString")
    return UsageWindow(kind=kind, size=size, half_life=half_life, start=start, cron=cron)


def _cron(value: object, at: str) -> CronSchedule:
    if not isinstance(value, str) or not value.strip():
        raise wrong(at, value, "is not a schedule; windowType cron needs one such as '0 0 * * 1'")
    try:
        return parse_cron(value)
    except CronError as error:
        raise wrong(at, value, str(error)) from None


def _moment(value: object, at: str) -> float:
    complaint = "is not a time; windowType tumbling needs one such as 2026-01-05T00:00:00Z"
    if isinstance(value, datetime):  # as YAML reads what stands there without quotes
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    try:
        return moment(typed(value, str, at))
    except (PolicyError, ValueError):
        raise wrong(at, value, complaint) from None


def _seconds(value: object, path: str, *, least: float = 0.0) -> float:
    """A duration as Go or Prometheus writes it (``1w``, ``36h``, ``1m30s``), in seconds."""
    seconds = _read(value) if isinstance(value, str) else 0.0 if value == 0 else None
    if seconds is None or not math.isfinite(seconds) or seconds > 100 * _LONG_SECONDS[0]:
        raise wrong(path, value, "is not a duration; write one such as 10m, 36h or 1w")
    if seconds < least:
        raise wrong(path, value, f"is below {least:g}s; write that or more")
    return seconds


def _read(text: str) -> float | None:
    match = _LONG.fullmatch(text.strip())
    if match is None or not text.strip():
        return None
    *counts, rest = match.groups()
    long = sum(int(n or 0) * of for n, of in zip(counts, _LONG_SECONDS, strict=True))
    short = 0.0 if rest in ("", "0") else read_duration(rest)
    return None if short is None else long + short
