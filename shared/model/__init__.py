"""Nodes, jobs, queues, volumes, devices and topology as immutable values."""
