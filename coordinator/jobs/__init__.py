"""The state of every job: table, totals, pending queue, nominations, backoff, deletion, counters.

``pending_queue`` keeps jobs of equal need in lines, with ``pending_order`` where there are many.
"""
