"""The explored model of lease, hand-over, commit and takeover: every state, without exception.

``state`` has the words; ``leader`` and ``worker`` what coordinators and workers may do, ``faults``
what may go wrong. ``ledger`` is what the scripts check, and ``checks`` names the checks that can be
taken away. ``invariants`` has what must hold everywhere, and ``explore`` goes through all states,
breadth first. ``eviction`` is a model of its own: one victim between ledger, leader and cluster.
"""
