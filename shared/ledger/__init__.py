"""The truth in Redis: accounts, task states, nominations, epochs and the log of changes."""
