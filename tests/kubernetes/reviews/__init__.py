"""Authorization of clients by the API server of the followed cluster."""
