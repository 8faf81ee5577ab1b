"""Talking to an API server: who we are, lists, watches, and many small writes."""
