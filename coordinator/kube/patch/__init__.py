"""Changing an object by a description of the change: four languages, all pure functions."""
