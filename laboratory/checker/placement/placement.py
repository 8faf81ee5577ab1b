"""Placements against the tasks' constraints on nodes, other pods, volumes and devices (promise 9).

A constraint is checked only if all policies that the shard may follow demand it: a policy without
the plugin predicates demands none, not even that a cordon counts, as in Volcano.
"""

from __future__ import annotations

from laboratory.checker.placement.belonging import Belonging
from laboratory.checker.placement.device_shares import DeviceShares
from laboratory.checker.placement.devices import CLAIM, DeviceChecks
from laboratory.checker.placement.domains import DomainChecks
from laboratory.checker.placement.labels import repelled_by
from laboratory.checker.placement.neighbours import NeighbourChecks, admits
from laboratory.checker.placement.numa import NumaChecks
from laboratory.checker.placement.outside_word import OutsideWord, Refuses
from laboratory.checker.placement.volumes import Volumes
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks, Facts
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy, demanded

_NOTHING: Facts = {}


class PlacementChecks:
    def __init__(self, books: CheckerBooks, refuses: Refuses | None = None) -> None:
        self._books = books
        self._neighbours = NeighbourChecks(books)
        self.volumes = Volumes(books)
        self._domains = DomainChecks(books)
        self._belonging = Belonging(books)
        self._shares = DeviceShares(books)
        self._numa = NumaChecks(books)
        self.outside = OutsideWord(books, refuses)
        self.devices = DeviceChecks(books)
        self._there: dict[int, dict[tuple[int, int], int]] = {}
        """Row -> (jid, tix) -> class, for tasks with device claims."""
        self._repelling: set[int] = set()
        """Rows that are tainted or cordoned; plain classes may use all others."""
        self._judged: dict[tuple[int, int], str] = {}
        """(class, row) -> problem; cleared when a node changes."""

    # --- what changes -----------------------------------------------------------------------------

    def put_rules(self, cid: int, rules: Facts) -> None:
        self._books.rules[cid] = rules
        if rules.get("pod_terms") or rules.get("spreads"):
            self._neighbours.begin()

    def drop_rules(self, cid: int) -> None:
        """A class is gone; its number may come again with other rules."""
        self._books.rules.pop(cid, None)
        self._judged.clear()

    def replaced(self, key: str) -> None:
        """An object is about to change, or to go."""
        self._domains.replaced(key)
        self._numa.replaced(key)

    def objects_changed(self, values: dict[str, Facts]) -> None:
        """Objects have these facts now."""
        for key, facts in values.items():
            if wrong := self.volumes.shared(key):
                self._books.findings.add(Rule.VOLUMES, wrong)
            if key.startswith(CLAIM) and (wrong := self.devices.allocated(key, facts)):
                self._books.findings.add(Rule.DEVICES, wrong)

    def policy_changed(self) -> None:
        self._judged.clear()

    def put_facts(self, row: int, facts: Facts) -> None:
        """Update the facts of a node."""
        self._books.node_facts[row] = facts
        self._judged.clear()
        if facts.get("taints") or facts.get("unschedulable"):
            self._repelling.add(row)
        else:
            self._repelling.discard(row)

    def job_changed(self, job: CheckedJob) -> None:
        if self._neighbours.active:
            self._neighbours.relabel(job)

    def appeared(self, jid: int, job: CheckedJob, tix: int) -> None:
        """Add a task to its row, however it got there."""
        if self._neighbours.active:
            self._neighbours.come(job, tix)
        rules = self._books.rules.get(job.cids[tix], _NOTHING)
        if "volumes" in rules:
            self.volumes.attach(job.rows[tix], job.namespace, rules, 1)
        if "claims" in rules or "claim_templates" in rules:
            self._there.setdefault(job.rows[tix], {})[jid, tix] = job.cids[tix]

    def leaving(self, job: CheckedJob, tix: int) -> None:
        """A task began to leave its row."""
        if self._neighbours.active:
            self._neighbours.leaves(job, tix)

    def freed(self, jid: int, job: CheckedJob, tix: int, *, leaving: bool) -> None:
        """Remove a task from its row."""
        if not self._books.rules:
            return
        if self._neighbours.active:
            self._neighbours.go(job, tix, leaving=leaving)
        rules = self._books.rules.get(job.cids[tix], _NOTHING)
        if "volumes" in rules:
            self.volumes.attach(job.rows[tix], job.namespace, rules, -1)
        self._there.get(job.rows[tix], {}).pop((jid, tix), None)

    # --- what a statement placed ------------------------------------------------------------------

    def placed(self, jid: int, job: CheckedJob, operations: list[list[int]], shard: str) -> None:
        """Check all placements of a statement, once they are all on their rows."""
        books, policies = self._books, self._books.policies.of(shard)
        if books.node_facts or books.rules:
            self._on_nodes(jid, job, operations, policies)
        self._by_jobs(jid, job, operations, policies)
        if not books.rules and not self._neighbours.active:
            return
        placed_tasks = [tix for tix, row, cid, _ in operations if self._is_there(job, tix, row)]
        for tix in placed_tasks:
            self.appeared(jid, job, tix)
        if self._neighbours.active:
            self._between_pods(jid, job, placed_tasks, policies)
        for tix in placed_tasks:
            self._with_objects(jid, job, tix, policies)

    def _is_there(self, job: CheckedJob, tix: int, row: int) -> bool:
        return tix < len(job.rows) and job.rows[tix] == row

    def _on_nodes(
        self, jid: int, job: CheckedJob, operations: list[list[int]], policies: list[CheckedPolicy]
    ) -> None:
        taints = demanded(policies, "TaintToleration")
        affinity = demanded(policies, "NodeAffinity")
        if not demanded(policies, "NodeUnschedulable"):
            return
        self._books.findings.checked[Rule.NODE_RULES] += len(operations)
        rules, repelling = self._books.rules, self._repelling
        if not rules and not repelling:
            return
        for tix, row, cid, _ in operations:
            if cid not in rules and row not in repelling:
                continue
            wrong = self._judged.get((cid, row))
            if wrong is None:
                wrong = self._judged[cid, row] = self._judge(cid, row, taints, affinity)
            if wrong:
                self._report(Rule.NODE_RULES, jid, job, tix, wrong)

    def _by_jobs(
        self, jid: int, job: CheckedJob, operations: list[list[int]], policies: list[CheckedPolicy]
    ) -> None:
        """Check what job, queue and role say of nodes."""
        present = [tix for tix, row, _, _ in operations if self._is_there(job, tix, row)]
        for tix in present:
            if job.role_of(tix).gated:
                self._report(Rule.NODE_RULES, jid, job, tix, "it has a scheduling gate")
            for checks in (self._belonging, self._numa, self.outside):
                if wrong := checks.wrong(job, tix, policies):
                    self._report(Rule.NODE_RULES, jid, job, tix, wrong)
            if wrong := self._shares.wrong(job, tix, policies):
                self._report(Rule.DEVICES, jid, job, tix, wrong)
        if job.topology is not None and self._keeps(job.topology, policies):
            self._books.findings.checked[Rule.POD_RULES] += 1
            if present and (wrong := self._domains.wrong(job, present)):
                self._report(Rule.POD_RULES, jid, job, present[0], wrong)

    @staticmethod
    def _keeps(topology: Facts, policies: list[CheckedPolicy]) -> bool:
        """Whether the policy serves the topology: a label's domains are kept under each."""
        return "label" in topology or (
            bool(policies) and all(policy.keeps_topology() for policy in policies)
        )

    def _judge(self, cid: int, row: int, taints: bool, affinity: bool) -> str:
        books = self._books
        if row not in books.nodes.names:
            return ""
        rules, facts = books.rules.get(cid, _NOTHING), books.node_facts.get(row, _NOTHING)
        node_facts = facts if taints else {"unschedulable": facts.get("unschedulable")}
        if taint := repelled_by(node_facts, rules.get("tolerations", [])):
            return f"its node has the taint {taint}, which it does not tolerate"
        if affinity and not admits(books, rules, row):
            return "its selector or node affinity does not let the node in"
        return ""

    def _between_pods(
        self, jid: int, job: CheckedJob, placed_tasks: list[int], policies: list[CheckedPolicy]
    ) -> None:
        affinity, spread = (
            demanded(policies, "PodAffinity"),
            demanded(policies, "PodTopologySpread"),
        )
        self._books.findings.checked[Rule.POD_RULES] += len(placed_tasks)
        self._neighbours.judging(job, placed_tasks)
        for tix in placed_tasks:
            wrong = self._neighbours.wrong(job, tix) if affinity else ""
            wrong = wrong or (self._neighbours.uneven(job, tix) if spread else "")
            if wrong:
                self._report(Rule.POD_RULES, jid, job, tix, wrong)

    def _with_objects(
        self, jid: int, job: CheckedJob, tix: int, policies: list[CheckedPolicy]
    ) -> None:
        rules = self._books.rules.get(job.cids[tix], _NOTHING)
        row, checked = job.rows[tix], self._books.findings.checked
        if "volumes" in rules and demanded(policies, "VolumeBinding"):
            checked[Rule.VOLUMES] += 1
            wrong = self.volumes.wrong(row, job.namespace, rules)
            if wrong := wrong or self.volumes.beyond(row):
                self._report(Rule.VOLUMES, jid, job, tix, wrong)
        if "claims" in rules or "claim_templates" in rules:
            checked[Rule.DEVICES] += 1
            wrong = self._claims(row, job, rules)
            if wrong and demanded(policies, "DynamicResourceAllocation"):
                self._report(Rule.DEVICES, jid, job, tix, wrong)

    def _claims(self, row: int, job: CheckedJob, rules: Facts) -> str:
        if key := self.devices.missing(job.namespace, rules):
            return f"{key} does not exist"
        node = self._books.nodes.names[row]
        return self.devices.beyond(row, job.namespace, rules) or self.devices.short(
            node, self._there[row]
        )

    def _report(self, rule: Rule, jid: int, job: CheckedJob, tix: int, problem: str) -> None:
        node = self._books.nodes.names[job.rows[tix]]
        message = f"task {jid}.{tix} of {job.key} was placed on {node}: {problem}"
        self._books.findings.add(rule, message)
