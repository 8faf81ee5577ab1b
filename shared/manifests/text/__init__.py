"""Bounded reading of JSON and YAML."""
