"""The four patch languages of Kubernetes, and managed fields. Pure."""
