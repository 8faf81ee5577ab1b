"""The gate: who asks, what they may do, and how the room for waiting requests is shared."""
