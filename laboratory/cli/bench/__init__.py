"""Measure how fast the service is, and what a task costs each process."""
