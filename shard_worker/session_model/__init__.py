"""Jobs, tasks, queues and nodes as a session sees them."""
