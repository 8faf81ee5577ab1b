"""Label selectors by the labels that they name, and label sets by their labels: an index both ways.

Asking every term about every label set costs terms x label sets, which is what a few thousand jobs
that each keep away from their own label come to. Here a term is filed under one of its
requirements, that with the fewest neighbours there, and a label set under each of its labels, so
that both questions look only at candidates that share a label. Every candidate is judged by
:func:`~shared.model.label_selector.matches`: the answers are exactly those of the plain scan.

Answers come in the order in which things were added, so that what follows from them does not depend
on hashes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from shared.model.constraints import Selector
from shared.model.label_selector import matches
from shared.model.model import Pairs

K = TypeVar("K", bound=Hashable)
At = TypeVar("At", bound=Hashable)

Namespaces = tuple[str, ...] | None
"""The namespaces of a term; None = all."""

FILED_NAMESPACES = 8
"""A term that names more namespaces is filed once for all of them: it would fill the index with
namespaces x values entries."""

_Bucket = tuple[str | None, str | None, str | None]
"""(namespace, label key, value); None = any."""


class LabelTerm(NamedTuple):
    """A term about pods: their namespaces, and their labels (None selects nothing)."""

    namespaces: Namespaces
    selector: Selector | None

    def selects(self, namespace: str, labels: dict[str, str]) -> bool:
        """Does the term select a pod of this namespace with these labels?"""
        in_namespace = self.namespaces is None or namespace in self.namespaces
        return in_namespace and matches(self.selector, labels)


class TermIndex(Generic[K]):
    """Which terms select a label set."""

    def __init__(self) -> None:
        self._terms: dict[K, tuple[int, LabelTerm, list[_Bucket]]] = {}
        self._buckets: dict[_Bucket, dict[K, None]] = {}
        self._added = 0
        self.looks = 0
        """Terms that were judged, since the start."""

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, key: K, term: LabelTerm) -> None:
        """Add a term under a key that is not in the index yet."""
        buckets = self._buckets_of(term)
        for bucket in buckets:
            self._buckets.setdefault(bucket, {})[key] = None
        self._terms[key] = (self._added, term, buckets)
        self._added += 1

    def discard(self, key: K) -> None:
        """Remove a term; nothing if it is not in the index."""
        _, _, buckets = self._terms.pop(key, (0, None, ()))
        for bucket in buckets:
            filed = self._buckets[bucket]
            del filed[key]
            if not filed:
                del self._buckets[bucket]

    def selecting(self, namespace: str, labels: dict[str, str]) -> list[K]:
        """The terms that select a pod of this namespace with these labels."""
        if not self._terms:
            return []
        numbered = [
            (self._terms[key][0], key)
            for key in self._candidates(namespace, labels)
            if self._terms[key][1].selects(namespace, labels)
        ]
        return [key for _, key in sorted(numbered, key=lambda pair: pair[0])]

    def _candidates(self, namespace: str, labels: dict[str, str]) -> Iterator[K]:
        """The terms that share a label with the set, each once: a label set meets at most one
        bucket of a term."""
        for space in (namespace, None):
            yield from self._in((space, None, None))
            for name, value in labels.items():
                yield from self._in((space, name, value))
                yield from self._in((space, name, None))

    def _in(self, bucket: _Bucket) -> dict[K, None]:
        filed = self._buckets.get(bucket, {})
        self.looks += len(filed)
        return filed

    def _buckets_of(self, term: LabelTerm) -> list[_Bucket]:
        """The buckets of the emptiest requirement that a pod can only meet by having a label: terms
        that share one label and differ in another do not share a bucket."""
        if term.selector is None:
            return []
        spaces: Iterable[str | None] = (None,)
        if term.namespaces is not None and len(term.namespaces) <= FILED_NAMESPACES:
            spaces = dict.fromkeys(term.namespaces)
        choices: list[list[_Bucket]] = []
        for need in term.selector:
            if need.operator == "In":
                values = dict.fromkeys(need.values)
                choices.append([(s, need.key, value) for s in spaces for value in values])
            elif need.operator == "Exists":
                choices.append([(s, need.key, None) for s in spaces])
        # Nothing but NotIn or DoesNotExist: a pod meets these without the label, so none leads
        # to the term (decision 0041).
        if not choices:
            return [(space, None, None) for space in spaces]
        return min(
            choices, key=lambda buckets: sum(len(self._buckets.get(b, ())) + 1 for b in buckets)
        )


class LabelIndex(Generic[K]):
    """Which label sets a term selects."""

    def __init__(self) -> None:
        self._members: dict[K, tuple[int, str, dict[str, str]]] = {}
        self._spaces: dict[str, dict[K, None]] = {}
        self._keys: dict[str, dict[K, None]] = {}
        self._values: dict[tuple[str, str], dict[K, None]] = {}
        self._added = 0
        self.looks = 0
        """Label sets that were judged, since the start."""

    def add(self, key: K, namespace: str, labels: Pairs) -> None:
        """Add the labels of a pod, under a key that is not in the index yet."""
        as_dict = dict(labels)
        self._members[key] = (self._added, namespace, as_dict)
        self._added += 1
        self._spaces.setdefault(namespace, {})[key] = None
        for name, value in as_dict.items():
            self._keys.setdefault(name, {})[key] = None
            self._values.setdefault((name, value), {})[key] = None

    def discard(self, key: K) -> None:
        """Remove a label set; nothing if it is not in the index."""
        member = self._members.pop(key, None)
        if member is None:
            return
        _, namespace, labels = member
        _drop(self._spaces, namespace, key)
        for name, value in labels.items():
            _drop(self._keys, name, key)
            _drop(self._values, (name, value), key)

    def selected(self, term: LabelTerm) -> list[K]:
        """The label sets that the term selects."""
        if term.selector is None:
            return []
        numbered = []
        for filed in self._fewest(term, term.selector):
            self.looks += len(filed)
            for key in filed:
                number, namespace, labels = self._members[key]
                if term.selects(namespace, labels):
                    numbered.append((number, key))
        return [key for _, key in sorted(numbered, key=lambda pair: pair[0])]

    def _fewest(self, term: LabelTerm, selector: Selector) -> list[dict[K, None]]:
        """Disjoint sets that cover all label sets the term can select: by the requirement, or
        namespaces, that leaves the fewest."""
        choices: list[list[dict[K, None]]] = []
        if term.namespaces is not None:
            choices.append([self._spaces.get(s, {}) for s in dict.fromkeys(term.namespaces)])
        for need in selector:
            if need.operator == "In":
                values = dict.fromkeys(need.values)
                choices.append([self._values.get((need.key, value), {}) for value in values])
            elif need.operator == "Exists":
                choices.append([self._keys.get(need.key, {})])
        if not choices:
            return [dict.fromkeys(self._members)]
        return min(choices, key=lambda sets: sum(map(len, sets)))


def _drop(filed: dict[At, dict[K, None]], at: At, key: K) -> None:
    del filed[at][key]
    if not filed[at]:
        del filed[at]
