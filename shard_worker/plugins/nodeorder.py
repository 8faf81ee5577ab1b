"""nodeorder: scores nodes as kube-scheduler does, each scorer with a weight.

A weight that the policy leaves alone is Volcano's default. Scorers that this version lacks would
say the same of every node here (nothing in a task class asks for what they look at), so their
default weights are silent; one that the policy sets is reported.
"""

from __future__ import annotations

from shard_worker.plugins.node_scores import Allocated, Balanced
from shard_worker.plugins.taint_score import SoftTaints
from shard_worker.session import Scorer, Session
from shared.policy import PluginOption

NOT_HERE = (
    "nodeaffinity.weight",
    "podaffinity.weight",
    "imagelocality.weight",
    "podtopologyspread.weight",
)


class NodeOrder:
    name = "nodeorder"

    def __init__(self, option: PluginOption) -> None:
        self._scorers = _scorers(option)
        self._warnings = [
            f"{argument}: this scorer is not in this version"
            for argument in NOT_HERE
            if option.whole(argument, 0) != 0
        ]

    def on_session_open(self, ssn: Session) -> None:
        for scorer in self._scorers:
            ssn.add_node_order_fn(scorer=scorer)
        for warning in self._warnings:
            ssn.warn(warning)


def _scorers(option: PluginOption) -> list[Scorer]:
    scorers: list[Scorer] = []
    if weight := option.whole("leastrequested.weight", 1):
        scorers.append(Allocated(weight=weight, most=False))
    if weight := option.whole("mostrequested.weight", 0):
        scorers.append(Allocated(weight=weight, most=True))
    if weight := option.whole("balancedresource.weight", 1):
        scorers.append(Balanced(weight=weight))
    if weight := option.whole("tainttoleration.weight", 3):
        scorers.append(SoftTaints(weight=weight))
    return scorers
