"""Turns, statements, outcomes, excerpts; and their encoding."""
