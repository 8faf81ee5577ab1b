"""The explored model of lease, hand-over, commit and takeover: every state, without exception.

``state`` has the words, ``leading``, ``working`` and ``failing`` what coordinators, workers and
misfortune can do, ``ledger`` what the scripts check, ``promises`` what must hold everywhere, and
``explore`` goes through all of it, breadth first.
"""
