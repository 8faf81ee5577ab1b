"""Parsing of network topology: hyper nodes, and the topology constraints of gangs."""

from __future__ import annotations

import re

from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.fields.metadata import TASK_SPEC, read_metadata
from shared.manifests.fields.reader import Fields, subdomain
from shared.manifests.fields.selectors import read_selector
from shared.model.constraints import Requirement, Selector
from shared.model.topology import HyperNode, Member, SubGroupPolicy, Topology

PARTITION_ID = "volcano.sh/partition-id"
"""Label of a Job's pods: the partition of the task that they belong to."""

_MEMBERS = 100_000
_MODES = ("", "hard", "soft")
_TIERS = 1000
_SUB_GROUPS = 1000
_REPEATS = 4
"""Maximum number of unbounded repetitions in a pattern: matching time grows with each."""
_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\)[*+{]|[()|]|[*+]|\{\d*,\d*\}|.", re.S)
"""Escapes, sets and repetitions of a pattern as one piece each."""
_BEYOND = re.compile(r"\(\?[=!<P]|\\[1-9]")
"""Lookahead, lookbehind and back references, which Volcano's patterns do not have."""


# --- what gangs ask ---------------------------------------------------------------------------


def read_topology(spec: Fields) -> Topology | None:
    """Read ``networkTopology``; the mode is hard if none is set."""
    fields = spec.child("networkTopology")
    if fields is None:
        return None
    fields.check("NetworkTopology")
    tier = fields.data.get("highestTierAllowed")
    name = fields.text("highestTierName")
    if tier is not None and name:
        message = "not allowed beside highestTierAllowed; leave one of the two out"
        raise fields.wrong("highestTierName", message)
    return Topology(
        hard=fields.choice("mode", _MODES, "") != "soft",
        highest_tier=None if tier is None else fields.integer("highestTierAllowed", 0, high=_TIERS),
        highest_tier_name=name,
    )


def read_sub_groups(spec: Fields) -> tuple[SubGroupPolicy, ...]:
    """Read ``subGroupPolicy`` of a PodGroup."""
    policies = tuple(_policy(p) for p in spec.children("subGroupPolicy", longest=_SUB_GROUPS))
    if len({policy.name for policy in policies}) != len(policies):
        raise spec.wrong("subGroupPolicy", "two of them have the same name; give each its own")
    return policies


def _policy(fields: Fields) -> SubGroupPolicy:
    fields.check("SubGroupPolicy")
    name = fields.text("name")
    if not name:
        raise fields.wrong("name", "missing; it is required")
    return SubGroupPolicy(
        name=name,
        size=fields.integer("subGroupSize", 1, low=1),
        minimum=fields.integer("minSubGroups", 0),
        topology=read_topology(fields),
        selector=read_selector(fields.child("labelSelector")),
        match_label_keys=tuple(dict.fromkeys(fields.texts("matchLabelKeys", longest=100))),
    )


def read_partition(task: Fields, role: str, replicas: int) -> SubGroupPolicy | None:
    """Read ``partitionPolicy`` of a Job's task: its members split into sub jobs of equal size."""
    fields = task.child("partitionPolicy")
    if fields is None:
        return None
    fields.check("JobPartition")
    total = fields.integer("totalPartitions", 0)
    size = fields.integer("partitionSize", 0)
    if total * size != replicas or not replicas:
        message = (
            f"{total} partitions of {size} are not the {replicas} replicas; write two numbers "
            "whose product they are"
        )
        raise fields.wrong("totalPartitions", message)
    minimum = fields.integer("minPartitions", 0)
    if minimum > total:
        raise fields.wrong("minPartitions", f"more than the {total} partitions; lower it")
    selector: Selector = (Requirement(TASK_SPEC, "In", (role,)),)
    topology = read_topology(fields)
    return SubGroupPolicy(role, size, minimum, topology, selector, (PARTITION_ID,))


# --- hyper nodes ------------------------------------------------------------------------------


def read_hyper_node(obj: dict[str, object]) -> HyperNode:
    meta = read_metadata(obj, namespaced=False)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("HyperNodeSpec")
    if spec.data.get("tier") is None:
        raise spec.wrong("tier", "missing; write a whole number, 1 for the closest")
    hyper = HyperNode(
        name=meta.name,
        tier=spec.integer("tier", 0, high=_TIERS),
        members=tuple(_member(m) for m in spec.children("members", longest=_MEMBERS)),
        tier_name=spec.text("tierName"),
    )
    if meta.name in hyper.children:
        raise InvalidInput("spec.members", None, "it names itself; leave that member out")
    return hyper


def _member(member: Fields) -> Member:
    member.check("HyperNodeMember")
    kind = member.choice("type", ("Node", "HyperNode"), "")
    if not kind:
        raise member.wrong("type", "missing; write Node or HyperNode")
    hyper = kind == "HyperNode"
    selector = member.need("selector")
    ways = ("exactMatch", "regexMatch", "labelMatch")
    selector.check("MemberSelector")
    used = [way for way in ways if selector.data.get(way) is not None]
    if len(used) != 1:
        message = f"wants exactly one of {', '.join(ways)}; write one of them"
        raise InvalidInput(selector.at, selector.data, message)
    fields = selector.need(used[0])
    match used[0]:
        case "exactMatch":
            fields.check("ExactMatch")
            return Member(hyper, "exact", subdomain(fields.data.get("name"), fields.path("name")))
        case "regexMatch":
            fields.check("RegexMatch")
            return Member(hyper, "regex", _pattern(fields))
        case _:
            if hyper:
                remedy = "only nodes are told by labels, name hyper nodes in exactMatch"
                raise not_in_this_version(fields.at, fields.data, remedy)
            return Member(hyper, "label", "", read_selector(fields))


def _pattern(fields: Fields) -> str:
    pattern = fields.text("pattern")
    if not pattern:
        raise fields.wrong("pattern", "missing; write a regular expression")
    if _mighty(pattern) or _BEYOND.search(pattern):
        message = "too mighty; write it without repetitions of repetitions, looks and references"
        raise fields.wrong("pattern", message)
    try:
        re.compile(pattern)
    except re.error:
        raise fields.wrong("pattern", "not a regular expression; correct it") from None
    return pattern


def _mighty(pattern: str) -> bool:
    """Whether matching may take too long: exponential time, by a repeated group with repetition or
    alternatives inside, or more than :data:`_REPEATS` unbounded repetitions."""
    inside = [False]
    repeats = 0
    for piece in _PIECES.findall(pattern):
        repeats += piece[-1] in "*+" or piece.endswith(",}") or piece == "){"
        if piece == "(":
            inside.append(False)
        elif piece[0] == ")" and len(inside) > 1:
            closed = inside.pop()
            if closed and len(piece) > 1:
                return True
            inside[-1] |= closed or len(piece) > 1
        elif piece == "|" or piece in "*+" or piece[0] == "{":
            inside[-1] = True
    return repeats > _REPEATS
