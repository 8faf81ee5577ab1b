"""Parsers of Volcano's kinds."""
