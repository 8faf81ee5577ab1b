"""Replays of a recorded cluster with this version, another policy, or several shards."""
