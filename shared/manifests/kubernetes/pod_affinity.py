"""Pod affinity terms, and topology spread constraints.

Label keys whose values come from the pod itself (``matchLabelKeys``) are added to the selector when
the pod is parsed, so that later code need not handle them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.codec.packed import replace
from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.fields.reader import Fields, dns_label
from shared.manifests.fields.selectors import ordered, read_selector
from shared.model.constraints import PodTerm, Requirement, Selector, Spread

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has, with its name as the value."""


@dataclass(frozen=True, slots=True)
class KeyedTerm:
    """A term with label keys whose values a selected pod must share with this pod, or must not."""

    term: PodTerm
    match: tuple[str, ...] = ()
    mismatch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedSpread:
    spread: Spread
    match: tuple[str, ...] = ()


# --- inter-pod affinity -----------------------------------------------------------------------


def read_pod_terms(affinity: Fields) -> tuple[KeyedTerm, ...]:
    terms: list[KeyedTerm] = []
    for name in ("podAffinity", "podAntiAffinity"):
        between = affinity.child(name)
        if between is None:
            continue
        between.check("PodAffinity")
        anti = name == "podAntiAffinity"
        terms += [_term(t, anti=anti) for t in between.children(REQUIRED, longest=100)]
        for wish in between.children(PREFERRED, longest=100):
            wish.check("WeightedTerm")
            term = wish.need("podAffinityTerm")
            terms.append(_term(term, anti=anti, weight=read_weight(wish)))
    return tuple(terms)


def read_weight(wish: Fields) -> int:
    if wish.data.get("weight") is None:
        raise wish.wrong("weight", "missing; write a whole number from 1 to 100")
    return wish.integer("weight", 0, low=1, high=100)


def _term(fields: Fields, *, anti: bool, weight: int = 0) -> KeyedTerm:
    fields.check("PodAffinityTerm")
    names, everywhere = _namespaces(fields)
    term = PodTerm(
        topology_key=_topology_key(fields),
        selector=read_selector(fields.child("labelSelector")),
        namespaces=names,
        all_namespaces=everywhere,
        anti=anti,
        weight=weight,
    )
    keys = _keys(fields, "matchLabelKeys"), _keys(fields, "mismatchLabelKeys")
    return KeyedTerm(term, *keys)


def _namespaces(fields: Fields) -> tuple[tuple[str, ...], bool]:
    """The listed namespaces and the selected ones together; () with neither.

    Namespaces here have only the label with their name, so a selector may use only that.
    """
    listed = fields.texts("namespaces", longest=100)
    for i, name in enumerate(listed):
        dns_label(name, f"{fields.path('namespaces')}[{i}]")
    selector = read_selector(fields.child("namespaceSelector"))
    if selector is None:
        return tuple(sorted(set(listed))), False
    if selector == ():
        return (), True
    if len(selector) == 1 and (selector[0].key, selector[0].operator) == (_NAMESPACE_NAME, "In"):
        return tuple(sorted({*listed, *selector[0].values})), False
    raise not_in_this_version(
        fields.path("namespaceSelector"),
        fields.data["namespaceSelector"],
        f"write {{}} for all, list them in namespaces, or select them by {_NAMESPACE_NAME}",
    )


def _topology_key(fields: Fields) -> str:
    if not fields.data.get("topologyKey"):
        raise fields.wrong("topologyKey", "missing; write the label that tells domains apart")
    return fields.label_key("topologyKey")


def _keys(fields: Fields, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fields.texts(name, longest=100)))


# --- topology spread --------------------------------------------------------------------------


def read_spreads(spec: Fields) -> tuple[KeyedSpread, ...]:
    return tuple(_spread(s) for s in spec.children("topologySpreadConstraints", longest=100))


def _spread(fields: Fields) -> KeyedSpread:
    fields.check("TopologySpread")
    wish = fields.choice("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"), "DoNotSchedule")
    hard = wish == "DoNotSchedule"
    domains = fields.data.get("minDomains")
    if domains is not None and not hard:
        raise fields.wrong("minDomains", "not allowed with ScheduleAnyway; leave it out")
    policies = [
        fields.choice(name, ("Honor", "Ignore"), usual) == "Honor"
        for name, usual in (("nodeAffinityPolicy", "Honor"), ("nodeTaintsPolicy", "Ignore"))
    ]
    spread = Spread(
        topology_key=_topology_key(fields),
        max_skew=_max_skew(fields),
        hard=hard,
        selector=read_selector(fields.child("labelSelector")),
        min_domains=1 if domains is None else fields.integer("minDomains", 1, low=1),
        honor_affinity=policies[0],
        honor_taints=policies[1],
    )
    return KeyedSpread(spread, _keys(fields, "matchLabelKeys"))


def _max_skew(fields: Fields) -> int:
    if fields.data.get("maxSkew") is None:
        raise fields.wrong("maxSkew", "missing; write a whole number, 1 for the most even")
    return fields.integer("maxSkew", 0, low=1)


# --- keys whose values the pod gives ----------------------------------------------------------


def term_of(keyed: KeyedTerm, labels: Mapping[str, str], at: str = "spec") -> PodTerm:
    """The term for a pod with these labels; keys that the pod lacks are ignored."""
    if keyed.term.selector is None and (keyed.match or keyed.mismatch):
        raise InvalidInput(
            f"{at}.affinity", None, "matchLabelKeys without labelSelector; write a labelSelector"
        )
    selector = _with(keyed.term.selector, keyed.match, "In", labels)
    return replace(keyed.term, selector=_with(selector, keyed.mismatch, "NotIn", labels))


def spread_of(keyed: KeyedSpread, labels: Mapping[str, str]) -> Spread:
    return replace(keyed.spread, selector=_with(keyed.spread.selector, keyed.match, "In", labels))


def _with(
    selector: Selector | None, keys: tuple[str, ...], operator: str, labels: Mapping[str, str]
) -> Selector | None:
    more = [Requirement(key, operator, (labels[key],)) for key in keys if key in labels]
    return selector if selector is None or not more else ordered([*selector, *more])
