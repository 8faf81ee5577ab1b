"""A model of lease, hand-over, commit and takeover, whose states are all explored.

``state`` defines the state; ``leader`` and ``worker`` the steps of coordinators and workers,
``faults`` the failures. ``ledger`` has the scripts' checks, and ``checks`` names those that can be
disabled. ``invariants`` must hold in every state, and ``explore`` visits all states, breadth first.
``eviction`` is a separate model: one victim between ledger, leader and cluster.
"""
