"""Plugins that filter and score nodes: predicates, nodeorder, binpack and others."""
