"""Volcano's dialect: the registry of its plugins, its actions, and its pending reasons."""
