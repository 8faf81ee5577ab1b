"""Plugins that rule jobs and their tasks: gang, priority, sla, pdb, conformance and others."""
