"""The order of turns: the policy's plugins applied to the totals of the whole cluster.

``order`` opens the turns, ``selection`` picks the next job, ``session_turns`` adds the turns that
need a session, ``starvation``, ``aging`` and ``cross_node`` the rules beside them.
"""
