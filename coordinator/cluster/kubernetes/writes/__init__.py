"""Writes to pods: bindings with preconditions, evictions, and what their answers mean."""
