"""Bounds of the clusters that a command makes up: larger ones do not fit this machine's memory."""

MOST_NODES = 1_000_000
MOST_PODS = 10_000_000
MOST_PER_NODE = 10_000
"""GPUs or processors."""
