"""Placements against the tasks' constraints: nodes, other pods, volumes and devices."""
