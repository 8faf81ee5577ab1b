"""What goes wrong between a client and its API server, on demand."""
