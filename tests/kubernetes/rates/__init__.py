"""How fast pods are bound on a real API server, and what that costs whom."""
