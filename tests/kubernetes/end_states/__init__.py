"""End states of walks, field by field: those that the real scheduler leaves, and Quadrant's.

``python -m tests.kubernetes.end_states`` runs each walk with both and records what it reads.
"""
