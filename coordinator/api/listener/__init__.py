"""Connections: which are accepted, limits on them, and which are closed for others."""
