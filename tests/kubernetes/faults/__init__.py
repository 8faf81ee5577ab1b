"""Faults between a client and its API server, on demand."""
