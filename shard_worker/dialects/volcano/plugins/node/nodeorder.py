"""nodeorder: scores nodes as kube-scheduler does, each scorer with a weight.

A weight that the policy leaves alone is Volcano's default; 0 switches a scorer off. Scorers by
the class and the node alone serve the fast path; those by other pods are asked in sessions over a
world.
"""

from __future__ import annotations

from shard_worker.framework.rules import Scorer
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.filters.pod_index import neighbours_of
from shard_worker.kube_scheduler.scores.images import ImageLocality
from shard_worker.kube_scheduler.scores.node_affinity import PreferredNodes
from shard_worker.kube_scheduler.scores.node_scores import Allocated, Balanced
from shard_worker.kube_scheduler.scores.pod_affinity import PreferredPods, preferred
from shard_worker.kube_scheduler.scores.taints import SoftTaints
from shard_worker.kube_scheduler.scores.topology_spread import SpreadOut, soft_spreads
from shared.policy.model import PluginOption


class NodeOrder:
    name = "nodeorder"

    def __init__(self, option: PluginOption) -> None:
        self._scorers = _scorers(option)
        self._pod_affinity = option.whole("podaffinity.weight", 2)
        self._spread = option.whole("podtopologyspread.weight", 2)

    def on_session_open(self, ssn: Session) -> None:
        for scorer in self._scorers:
            ssn.add_node_order_fn(scorer=scorer)
        if self._pod_affinity:
            near = PreferredPods(neighbours_of(ssn), weight=self._pod_affinity)
            ssn.add_batch_node_order_fn(
                near.scores, concerns=lambda cls: bool(preferred(cls)), symmetric=True
            )
        if self._spread:
            even = SpreadOut(neighbours_of(ssn), weight=self._spread)
            ssn.add_batch_node_order_fn(even.scores, concerns=lambda cls: bool(soft_spreads(cls)))


def _scorers(option: PluginOption) -> list[Scorer]:
    scorers: list[Scorer] = []
    if weight := option.whole("imagelocality.weight", 1):
        scorers.append(ImageLocality(weight=weight))
    if weight := option.whole("leastrequested.weight", 1):
        scorers.append(Allocated(weight=weight, most=False))
    if weight := option.whole("mostrequested.weight", 0):
        scorers.append(Allocated(weight=weight, most=True))
    if weight := option.whole("balancedresource.weight", 1):
        scorers.append(Balanced(weight=weight))
    if weight := option.whole("nodeaffinity.weight", 2):
        scorers.append(PreferredNodes(weight=weight))
    if weight := option.whole("tainttoleration.weight", 3):
        scorers.append(SoftTaints(weight=weight))
    return scorers
