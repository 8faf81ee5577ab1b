"""A real API server on one of several machines, kubelets on the others."""
