"""Chaos on a real API server: its pods' watch is the cluster's side of the history."""
