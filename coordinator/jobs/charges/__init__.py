"""Amounts that queues are charged with beside those of task classes."""
