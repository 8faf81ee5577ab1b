"""Parsers of Kubernetes' kinds."""
