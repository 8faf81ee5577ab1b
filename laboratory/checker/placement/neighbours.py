"""Rules between pods: required affinity, anti-affinity and hard topology spread (promise 9).

A worker judges by its view. The ledger refuses a placement if a job that it relied on changed
since, but not if another pod just ended, nor if a node came back with the pods that still run on
it. So within :data:`RECENT` seconds a pod that left, and a node that was away, count as they help
the placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from laboratory.checker.placement.labels import Labels, on_node, repelled_by, selected
from laboratory.checker.state.books import RECENT, CheckerBooks, Facts
from laboratory.checker.state.job import BINDING, RELEASING, CheckedJob

Kind = tuple[str, tuple[tuple[str, str], ...], int]
"""Namespace, labels and class of pods: equal for all rules between pods."""


class NeighbourChecks:
    """Tracks pods by kind and row, from the first class with such a rule on."""

    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self.active = False
        self._there: dict[Kind, Counter[int]] = {}
        """Kind -> row -> number of pods."""
        self._leaving: dict[Kind, Counter[int]] = {}
        """The leaving ones among them, which spreads do not count."""
        self._gone: list[tuple[float, Kind, int]] = []
        """(time, kind, row) of pods that recently began to leave, or left."""
        self._at: dict[tuple[CheckedJob, int], Kind] = {}
        """Task -> the kind it is counted as, since its job may change while it runs."""
        self._mates: Counter[tuple[Kind, int]] = Counter()
        """The pods of the statement that is judged: (kind, row) -> number. It places one pod after
        the other, and does not say in which order: one of another kind may have come later."""

    def begin(self) -> None:
        """Count the existing pods when the first class with a rule between pods appears."""
        if self.active:
            return
        self.active = True
        for job in self._books.jobs.values():
            for tix, state in enumerate(job.states):
                if BINDING <= state <= RELEASING:
                    self.come(job, tix)
                    if state == RELEASING:
                        self.leaves(job, tix)

    def come(self, job: CheckedJob, tix: int) -> None:
        kind = self._at[job, tix] = _kind(job, tix)
        self._move(kind, job.rows[tix], 1, leaving=False)

    def relabel(self, job: CheckedJob) -> None:
        """Update a changed job's pods to its new labels."""
        for tix in range(len(job.states)):
            before = self._at.get((job, tix))
            if before is not None and before != (kind := _kind(job, tix)):
                leaving = job.states[tix] == RELEASING
                self._move(before, job.rows[tix], -1, leaving=leaving)
                self._move(kind, job.rows[tix], 1, leaving=leaving)
                self._at[job, tix] = kind

    def _move(self, kind: Kind, row: int, by: int, *, leaving: bool) -> None:
        self._there.setdefault(kind, Counter())[row] += by
        if leaving:
            self._leaving.setdefault(kind, Counter())[row] += by

    def leaves(self, job: CheckedJob, tix: int) -> None:
        kind, row = self._at[job, tix], job.rows[tix]
        self._leaving.setdefault(kind, Counter())[row] += 1
        self._gone.append((self._books.t, kind, row))

    def go(self, job: CheckedJob, tix: int, *, leaving: bool) -> None:
        kind, row = self._at.pop((job, tix)), job.rows[tix]
        self._move(kind, row, -1, leaving=leaving)
        self._gone.append((self._books.t, kind, row))

    def judging(self, job: CheckedJob, tasks: list[int]) -> None:
        """Begin to judge what a statement placed."""
        self._mates = Counter((_kind(job, tix), job.rows[tix]) for tix in tasks)

    def _later(self, kind: Kind, row: int, me: Kind) -> int:
        """Number of pods of a kind on a row that may have come after the judged one."""
        return 0 if kind == me else self._mates[kind, row]

    # --- affinity ---------------------------------------------------------------------------------

    def wrong(self, job: CheckedJob, tix: int) -> str:
        """The rule that a new placement breaks, of its own or of others; "" if none."""
        me, row = _kind(job, tix), job.rows[tix]
        rules = self._books.rules.get(me[2], {})
        for term in rules.get("pod_terms", ()):
            if term.get("anti") and self._near(term, me, row):
                return f"is beside a pod that its anti-affinity ({term['topology_key']}) names"
        return self._unwanted(me, row) or self._alone(rules, me, row)

    def _near(self, term: Facts, me: Kind, row: int) -> int:
        """Number of other pods in the row's domain that a term selects."""
        key = term["topology_key"]
        domain = self._books.labels_of(row).get(key)
        if domain is None:
            return 0
        return sum(
            self._others(rows, key, domain, itself=row if kind == me else None)
            for kind, rows in self._there.items()
            if _names(term, me[0], kind)
        )

    def _others(self, rows: Counter[int], key: str, domain: str, *, itself: int | None) -> int:
        """Number of pods of a kind in a domain. ``itself``: the row of the judged pod where it is
        counted among them: it is no neighbour of itself."""
        return sum(
            n - (row == itself)
            for row, n in rows.items()
            if n and self._stands_in(row, key) == domain
        )

    def _unwanted(self, me: Kind, row: int) -> str:
        """The anti-affinity of other pods that the placement breaks; "" if none."""
        for kind, rows in self._there.items():
            for term in self._books.rules.get(kind[2], {}).get("pod_terms", ()):
                if not term.get("anti") or not _names(term, kind[0], me):
                    continue
                key = term["topology_key"]
                domain = self._books.labels_of(row).get(key)
                itself = row if kind == me else None
                if domain is not None and self._others(rows, key, domain, itself=itself):
                    return f"is beside a pod whose anti-affinity ({key}) names it"
        return ""

    def _alone(self, rules: Facts, me: Kind, row: int) -> str:
        """The required affinity that the placement breaks; "" if none. One pod must match all terms
        together in the domain of each. The first pod of a group that selects itself may be anywhere
        with the labels."""
        terms = [term for term in rules.get("pod_terms", ()) if not term.get("anti")]
        if not terms:
            return ""
        labels = self._books.labels_of(row)
        if missing := [t["topology_key"] for t in terms if t["topology_key"] not in labels]:
            return f"has pod affinity by {missing[0]}, a label that the node does not have"
        named = [
            (r, n - (kind == me and r == row), self._later(kind, r, me))
            for kind, r, n in self._present()
            if all(_names(term, me[0], kind) for term in terms)
        ]
        rows_found = {r for r, n, _ in named if n > 0}
        rows_found.update(
            r for kind, r, _ in self._left() if all(_names(term, me[0], kind) for term in terms)
        )
        # Whether those that left recently count is for the placement to choose: beside one of them
        # it is right, and so is the first of its group after all of them.
        was_first = not any(n > later for _, n, later in named)
        # Kubernetes' exception for the first pod of a group that wants to be beside its own kind:
        # without it none could ever start.
        if was_first and all(_names(term, me[0], me) for term in terms):
            return ""
        for term in terms:
            key = term["topology_key"]
            if not any(self._domain(r, key) == labels[key] for r in rows_found):
                return f"is in no domain ({key}) with a pod that its affinity names"
        return ""

    def _present(self) -> Iterator[tuple[Kind, int, int]]:
        """(kind, row, pods)"""
        for kind, rows in self._there.items():
            yield from ((kind, row, count) for row, count in rows.items())

    def _left(self) -> Iterator[tuple[Kind, int, int]]:
        """(kind, row, 1) for each pod that left recently, or began to."""
        self._forget()
        yield from ((kind, row, 1) for _, kind, row in self._gone)

    def _lately(self) -> Iterator[tuple[Kind, int, int]]:
        """(kind, row, pods), including those that left recently."""
        yield from self._present()
        yield from self._left()

    def _forget(self) -> None:
        since = self._books.t - RECENT
        self._gone = [entry for entry in self._gone if entry[0] >= since]

    def _domain(self, row: int, key: str) -> str | None:
        return self._books.labels_of(row).get(key)

    def _stands_in(self, row: int, key: str) -> str | None:
        """As :meth:`_domain`; a node that was deleted is in none, though pods may still run there:
        as in Kubernetes, they keep nobody away. Neither is one that is back only now: a worker may
        not have seen it yet (seed 150062)."""
        return None if self._books.may_be_away(row) else self._domain(row, key)

    # --- spread -----------------------------------------------------------------------------------

    def uneven(self, job: CheckedJob, tix: int) -> str:
        """The hard spread that a new placement breaks; "" if none."""
        me, row = _kind(job, tix), job.rows[tix]
        rules = self._books.rules.get(me[2], {})
        spreads = rules.get("spreads", ())
        keys = [spread["topology_key"] for spread in spreads]
        for spread in spreads:
            key = spread["topology_key"]
            domain = self._domain(row, key)
            if domain is None:
                return f"has a spread over {key}, a label that the node does not have"
            least, most, domains = self._extremes(spread, keys, me, rules)
            own_count = most.get(domain, 0)
            lowest = min(least.values(), default=0)
            # Kubernetes' rule: with fewer domains than `minDomains` the emptiest counts as 0.
            if domains < spread.get("min_domains", 1):
                lowest = 0
            if own_count - lowest > spread.get("max_skew", 1):
                return f"makes {own_count} in {key}={domain}, {lowest} are in the emptiest"
        return ""

    def _extremes(
        self, spread: Facts, keys: list[str], me: Kind, rules: Facts
    ) -> tuple[dict[str, int], dict[str, int], int]:
        """Per domain, the number of pods that may be counted, including those that left recently;
        and the number that must be, without those that are leaving; and the number of domains. Of a
        node that is back only now a worker may know neither the pods nor the domain; the pods of
        one that was deleted only now it may still count (seed 182294)."""
        key, books = spread["topology_key"], self._books
        most: dict[str, int] = {}
        may_count = {row for row in books.nodes.names if self._counts(row, spread, keys, rules)}
        counted = may_count - books.nodes.gone
        surely_counted = {row for row in counted if not books.may_be_away(row)}
        domains = {str(self._domain(row, key)) for row in counted}
        least = dict.fromkeys(domains, 0)
        for kind, row, count in self._lately():
            if (
                row in may_count
                and kind[0] == me[0]
                and selected(spread.get("selector"), _labels(kind))
            ):
                domain = str(self._domain(row, key))
                least[domain] = least.get(domain, 0) + count
        for kind, rows in self._there.items():
            if kind[0] == me[0] and selected(spread.get("selector"), _labels(kind)):
                leaving = self._leaving.get(kind, _NOBODY)
                for row in rows.keys() & surely_counted:
                    domain = str(self._domain(row, key))
                    surely = rows[row] - leaving[row] - self._later(kind, row, me)
                    most[domain] = most.get(domain, 0) + surely
        known = {str(self._domain(row, key)) for row in surely_counted}
        return {domain: least[domain] for domain in known}, most, len(domains)

    def _counts(self, row: int, spread: Facts, keys: list[str], rules: Facts) -> bool:
        """Whether a node's domain may count, by its labels and the constraint's two policies."""
        labels = self._books.labels_of(row)
        if not self._books.may_be_there(row) or not all(key in labels for key in keys):
            return False
        if spread.get("honor_affinity", True) and not admits(self._books, rules, row):
            return False
        facts = self._books.node_facts.get(row, {})
        return not (
            spread.get("honor_taints")
            and repelled_by({"taints": facts.get("taints", ())}, rules.get("tolerations", []))
        )


_NOBODY: Counter[int] = Counter()


def admits(books: CheckerBooks, rules: Facts, row: int) -> bool:
    """Whether a class's selector and required node affinity match a row."""
    labels = books.labels_of(row)
    if any(labels.get(key) != value for key, value in rules.get("selector", ())):
        return False
    terms = rules.get("affinity")
    return terms is None or on_node(terms, books.nodes.names[row], labels)


def _kind(job: CheckedJob, tix: int) -> Kind:
    role = job.role_of(tix)
    return job.namespace, tuple(sorted(role.labels.items())), job.cids[tix]


def _labels(kind: Kind) -> Labels:
    return dict(kind[1])


def _names(term: Facts, namespace: str, kind: Kind) -> bool:
    """Whether a term of a pod in this namespace selects pods of this kind."""
    spaces = term.get("namespaces") or [namespace]
    inside = term.get("all_namespaces") or kind[0] in spaces
    return bool(inside) and selected(term.get("selector"), _labels(kind))
