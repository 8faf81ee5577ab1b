"""Processes that read the bodies which are too large for the event loop."""
