"""The read model of the API: objects as written, combined with their current state."""
