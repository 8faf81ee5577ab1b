"""The driver of a Kubernetes cluster, without a server."""
