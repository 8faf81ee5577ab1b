"""Figures read from a history."""
