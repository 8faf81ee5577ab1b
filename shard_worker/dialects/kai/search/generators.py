"""KAI's two ways to make scenarios of the victims' order.

Both take the victims that a smaller probe found, then add units in order. What has no room by the
counts is not emitted: adding goes on until it may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shard_worker.dialects.kai.evictions import (
    EvictionScenario,
    KaiEvictionUnit,
    Probe,
    VictimCount,
)
from shard_worker.dialects.kai.search.node_capacities import NodeCapacities
from shard_worker.dialects.kai.session import KaiSession


def node_local_greedy(probe: Probe) -> Iterator[EvictionScenario]:
    """sg-nodelocalgreedy: after each unit, for each of its nodes by name, all units so far that
    touch the node."""
    if probe.recorded:
        yield EvictionScenario(probe.recorded)
    on_row: dict[int, tuple[dict[KaiEvictionUnit, None], VictimCount]] = {}
    of_job: dict[int, list[KaiEvictionUnit]] = {}
    for unit in probe.units():
        earlier = of_job.setdefault(unit.jid, [])
        rows = [task.row for task in unit.occupants]
        if len(rows) > 1:
            rows = sorted(set(rows), key=probe.node_name)
        for row in rows:
            if row not in on_row:
                on_row[row] = {}, probe.gathering()
            units, count = on_row[row]
            for added in (unit,) if unit.alone else (*earlier, unit):
                if added not in units:
                    units[added] = None
                    count.add(added)
        earlier.append(unit)
        for row in rows:
            units, count = on_row[row]
            if count.enough():
                yield EvictionScenario(probe.recorded, tuple(units))


def multi_node_gang(probe: Probe) -> Iterator[EvictionScenario]:
    """sg-multinodegang: after each unit, the units that touch the smallest nodes which together
    could hold what is missing, then those of more and more nodes."""
    if probe.recorded:
        yield EvictionScenario(probe.recorded)
    units: list[KaiEvictionUnit] = []
    nodes, count = NodeCapacities(probe), probe.gathering()
    for unit in probe.units():
        units.append(unit)
        nodes.add(unit)
        count.add(unit)
        if not count.enough():
            continue
        ranked, first = nodes.ranked()
        for size in prefixes(first, len(ranked)):
            chosen = _touching(units, ranked[:size])
            if chosen:
                yield EvictionScenario(probe.recorded, chosen)


def prefixes(first: int, last: int) -> Iterator[int]:
    """``first``, then one more, two more, four more, up to all."""
    size, step = first, 1
    while size < last:
        yield size
        size, step = first + step, 2 * step
    if first <= last:
        yield last


def _touching(units: Sequence[KaiEvictionUnit], rows: Sequence[int]) -> tuple[KaiEvictionUnit, ...]:
    """The units with a task on one of the rows, and those of their jobs that have to go before."""
    on = set(rows)
    chosen = {unit for unit in units if any(task.row in on for task in unit.occupants)}
    # From the last to the first: whoever comes before a unit that needs all of them.
    needed: set[int] = set()
    for unit in reversed(units):
        if unit in chosen or unit.jid in needed:
            chosen.add(unit)
            if not unit.alone:
                needed.add(unit.jid)
    return tuple(unit for unit in units if unit in chosen)


def register_node_local_greedy(ssn: KaiSession) -> None:
    """sg-nodelocalgreedy: victims of one node, beside those of a smaller probe."""
    ssn.evictions.add_scenario_generator("NodeLocalGreedy", node_local_greedy)


def register_multi_node_gang(ssn: KaiSession) -> None:
    """sg-multinodegang: victims of several nodes at once, as few as could be enough."""
    ssn.evictions.add_scenario_generator("MultiNodeGang", multi_node_gang)
