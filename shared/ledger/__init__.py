"""The truth in Redis: accounting records, task states, nominations, epochs and the log of changes."""
