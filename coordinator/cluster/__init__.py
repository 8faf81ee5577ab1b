"""Cluster drivers: what carries out a bind and reports what became of it."""
