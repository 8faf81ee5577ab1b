"""One turn: without a session over columns, or with a session of actions; and reservations."""
