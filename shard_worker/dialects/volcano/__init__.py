"""Volcano's dialect: the registry of its plugins, its actions, the words of its reasons."""
