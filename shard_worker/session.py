"""A session: the hooks of the plugins that a policy names, combined tier by tier.

Both halves of the scheduler open one from the same policy. Order asks it over :class:`ClusterInfo`
(keys, shares, quotas), Place over a shard's node columns (masks, scores), both about gangs
(:class:`Progress`). A session holds no state of the cluster, only what plugins cache.

Order hooks give sort keys instead of comparisons: comparing two keys component by component is the
same as asking each plugin in tier order and taking the first that tells the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from shard_worker.extension_points import EXTENSION_POINTS, Combine, ExtensionPoint, Half
from shard_worker.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shared.model import Node, Requests, Role, Taint, TaskClass
from shared.policy import PluginOption, Policy

__all__ = [
    "ABSTAIN",
    "EXTENSION_POINTS",
    "PERMIT",
    "REJECT",
    "Coded",
    "Combine",
    "ExtensionPoint",
    "Half",
    "Key",
    "Mask",
    "NodeColumns",
    "Plugin",
    "Registrar",
    "Rows",
    "Scorer",
    "Session",
    "open_session",
]

T_co = TypeVar("T_co", covariant=True)

REJECT, ABSTAIN, PERMIT = -1, 0, 1
"""The votes of JobPipelined and JobEnqueueable."""

Shares = Callable[[QueueInfo, ClusterInfo], Mapping[int, float]]
"""A plugin's answer to what a queue deserves."""

Key = tuple[float, ...]
"""Part of a sort key; the smaller key goes first."""
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp] | slice
"""Rows of a view: an array of row numbers, or a slice of step 1 (``slice(None)``: all of them)."""
BLOCK = 1 << 13
"""Rows scored at a time: the intermediate arrays stay in the processor's cache."""


class Coded(Protocol[T_co]):
    """A column of repeated values: ``values[codes[row]]``, and code -1 where a row has none.

    Values are interned: a value keeps its code as long as the view lives, and the list only grows.
    """

    @property
    def codes(self) -> NDArray[np.int32]: ...

    @property
    def values(self) -> Sequence[T_co]: ...


class NodeColumns(Protocol):
    """What plugins see of the nodes. Index of every array: row. Amounts: the unit of the slot.

    ``used`` includes what was observed from outside. A row whose node is gone has None in
    ``nodes``, code -1 everywhere, and never counts as a candidate.
    """

    @property
    def size(self) -> int:
        """Number of rows."""
        ...

    @property
    def nodes(self) -> Sequence[Node | None]: ...

    @property
    def slot_names(self) -> Sequence[str]:
        """Slot -> the resource's name; slots that no name is known for may be missing."""
        ...

    def column(self, kind: str, slot: int) -> NDArray[np.int64]:
        """The ``size`` live amounts of a slot; ``kind``: allocatable, used, releasing, nominated.

        For a slot that no row has: zeros (``allocatable``: what a node has without saying so).
        """
        ...

    def label(self, key: str) -> Coded[str]:
        """The values of one label."""
        ...

    def taints(self) -> Coded[tuple[Taint, ...]]:
        """The taint set of each node (the empty tuple is a set)."""
        ...

    def unschedulable(self) -> Mask:
        """True where the node is cordoned; length ``size``."""
        ...


class Scorer(Protocol):
    """A node score. Both methods give the same number for the same row (a property test holds)."""

    @property
    def node_local(self) -> bool:
        """True if a row's score follows from the class and that row's own amounts and spec."""
        ...

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        """Scores of many rows."""
        ...

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        """Score of one row, without NumPy's cost per call."""
        ...


class Plugin(Protocol):
    """A plugin speaks at the extension points for which it registers a function."""

    @property
    def name(self) -> str: ...

    def register(self, session: Registrar) -> None: ...


@dataclass(frozen=True, slots=True)
class Registered:
    """A function at an extension point, with the tier and plugin it came from."""

    tier: int
    plugin: str
    fn: Any


class Registrar:
    """What a plugin registers with: the session, for one plugin of one tier."""

    __slots__ = ("_option", "_session", "_tier")

    def __init__(self, session: Session, tier: int, option: PluginOption) -> None:
        self._session = session
        self._tier = tier
        self._option = option

    def add(self, point: str, fn: Callable[..., Any] | Scorer) -> None:
        """Speak at ``point``; without effect where the policy switched the point's flag off."""
        flag = EXTENSION_POINTS[point].flag
        if flag is None or self._option.enabled(flag):
            entry = Registered(tier=self._tier, plugin=self._option.name, fn=fn)
            self._session.hooks[point].append(entry)

    def tell_shares(self, deserved: Shares) -> None:
        """Tell what queues deserve; for people to read, no decision asks for it."""
        self._session.deserved = deserved

    def warn(self, text: str) -> None:
        """Tell the operator of a setting that this version accepts without effect."""
        self._session.warnings.append(f"{self._option.name}: {text}")


class Session:
    """The combined hooks of one policy. Built by :func:`open_session`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.hooks: dict[str, list[Registered]] = {name: [] for name in EXTENSION_POINTS}
        """Extension point -> functions in tier order, in each tier in the policy's order."""
        self.warnings: list[str] = list(policy.warnings)
        """Settings that were accepted but have no effect in this version."""
        self.deserved: Shares = _no_shares
        """What a queue deserves by slot; empty where it has no jobs, or no plugin deals shares."""

    def has(self, point: str) -> bool:
        """Does any plugin speak at this point?"""
        return bool(self.hooks[point])

    # --- order half ---------------------------------------------------------------------------

    def job_key(self, info: JobInfo, cluster: ClusterInfo) -> Key:
        """JobOrder. The caller adds Volcano's last tie-break: creation, then uid (here jid)."""
        return tuple(h.fn(info, cluster) for h in self.hooks["JobOrder"])

    def queue_key(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """QueueOrder. The caller adds the last tie-break."""
        key: Key = ()
        for hook in self.hooks["QueueOrder"]:
            key += hook.fn(queue, cluster)
        return key

    def task_key(self, role: Role) -> Key:
        """TaskOrder, of the roles of one job; members of a role go by their index."""
        return tuple(h.fn(role) for h in self.hooks["TaskOrder"])

    def overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool:
        """Overused: the queue has its share and gets no further turn."""
        return any(h.fn(queue, cluster) for h in self.hooks["Overused"])

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Allocatable: the queue may take this request on top of what it has."""
        return all(h.fn(queue, requests, cluster) for h in self.hooks["Allocatable"])

    def job_valid(self, info: JobInfo, cluster: ClusterInfo) -> str | None:
        """JobValid: None, or why the job cannot be scheduled as it stands."""
        for hook in self.hooks["JobValid"]:
            reason: str | None = hook.fn(info, cluster)
            if reason is not None:
                return reason
        return None

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> bool:
        """JobEnqueueable: the job's pods may be created."""
        return self._vote("JobEnqueueable", info, cluster)

    # --- both halves --------------------------------------------------------------------------

    def job_ready(self, progress: Progress) -> bool:
        """JobReady: the members that have a place may be committed. True where nobody objects."""
        return all(h.fn(progress) for h in self.hooks["JobReady"])

    def job_pipelined(self, progress: Progress) -> bool:
        """JobPipelined: with its nominations counted, the job keeps what it holds."""
        return self._vote("JobPipelined", progress)

    def job_starving(self, info: JobInfo) -> bool:
        """JobStarving: the first tier with an opinion decides; without any, no job starves."""
        hooks = self.hooks["JobStarving"]
        return bool(hooks) and all(h.fn(info) for h in hooks if h.tier == hooks[0].tier)

    def _vote(self, point: str, *args: object) -> bool:
        """A rejection is final, the first tier with a permission permits, silence permits.

        A rejection in a tier counts before a permission of the same tier, whatever their order.
        """
        hooks = self.hooks[point]
        permitted_in: int | None = None
        for hook in hooks:
            if permitted_in is not None and hook.tier != permitted_in:
                return True
            vote = hook.fn(*args)
            if vote < 0:
                return False
            if vote > 0:
                permitted_in = hook.tier
        return True

    # --- place half ---------------------------------------------------------------------------

    def predicates(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """Predicate: (reason, mask) per static check, in the order in which they are charged.

        A mask covers all rows and is True where the node passes. The masks follow from class and
        node specs alone; a check that no node can fail is left out.
        """
        checks: list[tuple[str, Mask]] = []
        for hook in self.hooks["Predicate"]:
            checks.extend(hook.fn(cls, view))
        return checks

    @property
    def scores_node_locally(self) -> bool:
        """True if a change of one row moves no other row's score (until a node's spec changes)."""
        return all(h.fn.node_local for h in self.hooks["NodeOrder"])

    def score(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        """NodeOrder: the sum of all scorers on ``rows`` as they stand in ``view`` now."""
        if not isinstance(rows, slice) and len(rows) == 1:
            return np.array([self.score_row(cls, view, int(rows[0]))])
        if not isinstance(rows, slice):
            total = np.zeros(len(rows))
            self._add_scores(cls, view, rows, total)
            return total
        start, stop, _ = slice(rows.start, rows.stop).indices(view.size)
        total = np.zeros(max(stop - start, 0))
        for low in range(start, stop, BLOCK):
            high = min(low + BLOCK, stop)
            self._add_scores(cls, view, slice(low, high), total[low - start : high - start])
        return total

    def _add_scores(
        self, cls: TaskClass, view: NodeColumns, rows: Rows, total: NDArray[np.float64]
    ) -> None:
        for hook in self.hooks["NodeOrder"]:
            total += hook.fn.rows(cls, view, rows)

    def score_row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        """:meth:`score` of one row."""
        total = 0.0
        for hook in self.hooks["NodeOrder"]:
            total += hook.fn.row(cls, view, row)
        return total


def _no_shares(queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
    del queue, cluster
    return {}


def open_session(policy: Policy) -> Session:
    """Make the plugins of a policy and let each register, in the order of the tiers.

    Raises PolicyError where an argument of a plugin is not what the plugin takes.
    """
    from shard_worker.plugins.registry import build_plugin  # plugins import this module

    session = Session(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            build_plugin(option).register(Registrar(session, tier, option))
    return session
