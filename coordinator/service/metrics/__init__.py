"""Metrics: measuring and exporting."""
