"""Whose turn it is: the policy's plugins asked over the whole cluster's totals.

``order`` makes the turns, ``selection`` picks the next job, ``session_turns`` are the policies that
need a session of actions, ``starvation``, ``aging`` and ``cross_node`` the rules beside them.
"""
