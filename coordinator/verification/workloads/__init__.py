"""Workloads: traces, generators, what jobs demand, and a client that submits in bulk."""
