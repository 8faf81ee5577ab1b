"""Plugins about queues: capacity, proportion, drf, overcommit, resourcequota."""
