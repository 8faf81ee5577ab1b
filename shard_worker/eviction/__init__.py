"""Evictions: victims, dry runs, eviction units, room for a whole gang."""
