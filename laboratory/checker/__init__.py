"""The checker: reads a history offline and finds the first event that breaks a promise.

It computes everything itself. It imports nothing of the scheduler, its messages or its ledger, so
that a bug there cannot hide itself here.
"""
