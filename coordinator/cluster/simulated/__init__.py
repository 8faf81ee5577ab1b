"""Simulated kubelets, the process that they run in, and its client."""
