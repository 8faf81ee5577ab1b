"""Volcano's kinds."""
