"""Kubernetes' dialect over HTTP: what stock kubectl and clients speak."""
