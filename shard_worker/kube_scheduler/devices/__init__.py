"""Dynamic resource allocation: pools of devices, claims, and the search for a fit."""
