"""Doubles of Kubernetes' own controllers, for an API server that runs without them."""
