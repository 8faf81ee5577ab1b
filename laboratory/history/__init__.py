"""Performance figures from a history."""
