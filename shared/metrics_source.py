"""Where figures about what nodes really use come from: the ``metrics`` part of a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

INTERVAL = 30.0
"""Seconds between two looks, as in Volcano."""
HERE = ("prometheus",)
VOLCANO = ("prometheus", "prometheus_adaptor", "prometheus_adapt", "elasticsearch")


class SourceError(ValueError):
    """What is wrong with the part, and what to write instead; begins with the field."""


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """A Prometheus server."""

    address: str
    """Its URL, without a path of a query."""
    interval: float = INTERVAL
    """Seconds."""
    insecure: bool = False
    """Its certificate is not checked."""


def read_metrics_source(given: Mapping[str, object], duration: object) -> MetricsSource | None:
    """The source that a policy names; None where it names none.

    ``duration``: the seconds of ``interval``, None where that is not a duration."""
    if not given:
        return None
    kind = given.get("type") or "prometheus"
    if kind not in HERE:
        known = kind in VOLCANO
        why = "is Volcano's, but not in this version" if known else "is not known"
        raise SourceError(f"metrics.type: {kind!r} {why}; write prometheus")
    address = given.get("address")
    if not isinstance(address, str) or urlsplit(address).scheme not in ("http", "https"):
        raise SourceError(
            f"metrics.address: {address!r} is not the address of a server; "
            "write one such as http://prometheus:9090"
        )
    if not isinstance(duration, int | float) or duration <= 0:
        raise SourceError(
            f"metrics.interval: {given.get('interval')!r} is not a duration; write one such as 30s"
        )
    tls = given.get("tls")
    insecure = isinstance(tls, Mapping) and str(tls.get("insecureSkipVerify")).lower() == "true"
    return MetricsSource(address.rstrip("/"), float(duration), insecure)
