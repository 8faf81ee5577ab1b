"""Cluster drivers: they execute binds and report the results."""
