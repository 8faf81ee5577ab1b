"""How fast Quadrant binds on a real API server, and what that costs whom."""
