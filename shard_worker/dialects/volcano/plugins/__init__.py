"""Volcano's plugins, by what they rule: jobs, nodes or queues."""
