"""Kubernetes' four patch types, and managed fields. Pure functions."""
