"""Decide recorded states and traces without a service: replay, scaling, snapshot."""
