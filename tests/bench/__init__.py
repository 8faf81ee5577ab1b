"""``python -m tests.bench NAME``: one action of a KAI session, timed by itself."""
