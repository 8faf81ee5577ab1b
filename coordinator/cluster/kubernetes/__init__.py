"""The driver of a real cluster: a Kubernetes API server, watched, written to, or only shadowed.

``api`` talks to the server. ``state`` is pure: what the watches say goes in; objects for intake and
reports on tasks come out. ``cluster`` is the driver behind :mod:`coordinator.cluster.protocol`.
"""
