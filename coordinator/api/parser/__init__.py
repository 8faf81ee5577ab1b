"""Processes that parse bodies too large for the event loop."""
