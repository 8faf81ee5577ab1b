"""Workloads: traces, generators, demands of jobs, and a client for bulk submission."""
