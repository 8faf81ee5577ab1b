"""The ``metrics`` part of a policy file: the source of the nodes' actual usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.secrets.credentials import hide_credentials

INTERVAL = 30.0
"""Default seconds between two queries, as in Volcano."""
HERE = ("prometheus",)
VOLCANO = ("prometheus", "prometheus_adaptor", "prometheus_adapt", "elasticsearch")


class SourceError(ValueError):
    """The message begins with the field, and says what is wrong and what to write instead."""


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """A Prometheus server."""

    address: str
    """Its URL, without the path of a query."""
    interval: float = INTERVAL
    """Seconds."""
    insecure: bool = False
    """Do not verify its TLS certificate."""


def read_metrics_source(fields: Mapping[str, object], duration: object) -> MetricsSource | None:
    """The source that a policy names, or None. ``duration``: the parsed ``interval`` in seconds,
    None if it is not a duration."""
    if not fields:
        return None
    kind = fields.get("type") or "prometheus"
    if kind not in HERE:
        in_volcano = kind in VOLCANO
        why = "is Volcano's, but not in this version" if in_volcano else "is not known"
        raise SourceError(f"metrics.type: {kind!r} {why}; write prometheus")
    address = fields.get("address")
    if not isinstance(address, str) or urlsplit(address).scheme not in ("http", "https"):
        raise SourceError(
            f"metrics.address: {hide_credentials(repr(address))} is not the address of a server; "
            "write one such as http://prometheus:9090"
        )
    if not isinstance(duration, int | float) or duration <= 0:
        raise SourceError(
            f"metrics.interval: {fields.get('interval')!r} is not a duration; write one such as 30s"
        )
    tls = fields.get("tls")
    insecure = isinstance(tls, Mapping) and str(tls.get("insecureSkipVerify")).lower() == "true"
    return MetricsSource(address.rstrip("/"), float(duration), insecure)
