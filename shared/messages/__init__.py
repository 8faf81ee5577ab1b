"""Turns, statements, outcomes, excerpts; and their bytes."""
