"""Connections: which are accepted, how many, from where, and which give way."""
