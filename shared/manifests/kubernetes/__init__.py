"""Kubernetes' kinds."""
