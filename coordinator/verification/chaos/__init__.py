"""Faults on real processes: which strike, the load beside them, what the history says of it."""
