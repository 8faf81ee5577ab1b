"""One turn: flat over columns, or a session of actions; and reservations for one."""
