"""The checker: reads a history offline and finds the first event that breaks a promise.

It adds everything up by itself. It imports nothing of the scheduler, its messages or its ledger, so
that a mistake there cannot hide itself here.
"""
