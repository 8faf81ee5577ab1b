"""Plugins that rule queues: capacity, proportion, drf, overcommit, resourcequota."""
