"""Plugins about jobs and their tasks: gang, priority, sla, pdb, conformance and others."""
